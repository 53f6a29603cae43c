"""Frames of a stream in Python: all that a stage needs, with msgpack and numpy alone."""
import os
import signal
import sys

try:
    import msgpack
    import numpy
except ImportError as e:
    sys.exit(f"{sys.executable}: {e}; it has to be a Python with msgpack and numpy: Debian's is /usr/bin/python3")

NAME = os.path.basename(sys.argv[0])
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the source's affair: it sends its end, and we drain to it
signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that is gone ends us, so that the one before learns of it


def fail(status, why):
    """One sentence, and an exit code: 1 runtime, 2 usage, 3 the input is not a whole, valid stream."""
    sys.stderr.write(f"{NAME}: error: {why}\n")
    sys.exit(status)


def decode(m):
    if b"nd" not in m:
        return m
    a = numpy.frombuffer(m[b"data"], m[b"type"])
    return a.reshape(m[b"shape"]) if m[b"nd"] else a[0]


def encode(a):
    """msgpack-numpy's encoding, byte for byte."""
    whole = isinstance(a, numpy.ndarray)
    m = {b"nd": whole, b"type": a.dtype.str, b"data": a.tobytes()}
    return {b"nd": True, b"type": m[b"type"], b"kind": b"", b"shape": a.shape, b"data": m[b"data"]} if whole else m


def objects(source):
    """MessagePack's, with arrays in the place of their maps."""
    # .raw: a buffered read would wait for more than the frame that is there. 0: no limit, or big frames are dropped.
    unpacker = msgpack.Unpacker(source.raw, object_hook=decode, max_buffer_size=0, read_size=1 << 20)
    while True:
        try:
            yield next(unpacker)
        except StopIteration:
            return
        except (ValueError, KeyError, TypeError, msgpack.UnpackException) as e:
            fail(3, f"<stdin> is not a stream of MessagePack frames: {e!r}")


def frames(source=sys.stdin.buffer):
    """Every frame, the end too; exits with 3 where the stream does not begin with a head or just stops."""
    last = None
    for frame in objects(source):
        if not isinstance(frame, dict) or not isinstance(frame.get("mf"), str):
            fail(3, "a frame is a map with the key mf, which names its kind")
        if frame["mf"] == "rollout" and not isinstance(frame.get("arrays"), dict):
            fail(3, "a rollout has no arrays")
        if last is None and frame.get("mf") != "head":
            fail(3, f"a stream begins with a head, not with {frame.get('mf')}")
        if last == "end":
            fail(3, f"something follows the end: {frame.get('mf')}")
        last = frame["mf"]
        yield frame
    if last == "failed":
        sys.exit(3)  # who failed has said why
    if last != "end":
        fail(3, "the stream stops without an end frame")


def send(frame):
    sys.stdout.buffer.write(msgpack.packb(frame, default=encode))
    sys.stdout.flush()  # now, since the collector may wait for what comes of it


def words():
    """key=value words as the programs take them; those of other stages do no harm."""
    for word in sys.argv[1:]:
        if "=" not in word:
            fail(2, f"'{word}' is not key=value")
    return dict(word.split("=", 1) for word in sys.argv[1:])


def sign(head, version):
    """Leave a link in the head's chain: who had a hand in this stream."""
    head.setdefault("chain", []).append({"stage": NAME, "version": version, "argv": sys.argv})
