#!/usr/bin/python3
"""A writer that lies to the reader of a ZeroMQ stream: peer.py ADDRESS version|garbage|headless|future|flood
or sends what is in a file: peer.py ADDRESS stream FILE
or one that asks a server of environments nonsense: peer.py ADDRESS ask

It prints why it was refused, and exits 1 when nobody told it. libzmq is called as it is, so nothing need be installed.
"""
import ctypes
import ctypes.util
import struct
import sys

DEALER, RCVTIMEO, SNDMORE = 5, 27, 2
zmq = ctypes.CDLL(ctypes.util.find_library("zmq"))
for function in (zmq.zmq_ctx_new, zmq.zmq_socket):
    function.restype = ctypes.c_void_p
socket = ctypes.c_void_p(zmq.zmq_socket(ctypes.c_void_p(zmq.zmq_ctx_new()), DEALER))
zmq.zmq_setsockopt(socket, RCVTIMEO, ctypes.byref(ctypes.c_int(3000)), 4)
address, lie = sys.argv[1:3]
assert zmq.zmq_connect(socket, address.encode()) == 0


def send(*parts):
    for i, part in enumerate(parts):
        more = SNDMORE if i + 1 < len(parts) else 0
        assert zmq.zmq_send(socket, part, ctypes.c_size_t(len(part)), more) >= 0


def hello(version):
    send(b"", b"\x83\xa2mf\xa4port\xa3say\xa5hello\xa1v" + bytes([version]))


def frame(data, number=0):
    send(struct.pack("<Q", number), data)


if lie == "ask":
    send(b"", b"GET / HTTP/1.1")
else:
    hello(9 if lie == "version" else 1)
if lie == "garbage":
    frame(b"GET / HTTP/1.1")
elif lie == "headless":
    frame(b"\x81\xa2mf\xa5round")
elif lie == "future":
    frame(b"\x82\xa2mf\xa4head\xa1v\x07")
elif lie == "flood":  # none of it is a frame, a number or a note
    for _ in range(200):
        send(b"x" * 1000, b"y" * 100000, b"z")
    frame(b"GET / HTTP/1.1")
elif lie == "stream":
    import msgpack

    data = open(sys.argv[3], "rb").read()
    at = msgpack.Unpacker(max_buffer_size=0, strict_map_key=False)
    at.feed(data)
    since = 0
    for n, _ in enumerate(at):
        frame(data[since : at.tell()], n)
        since = at.tell()
answer = ctypes.create_string_buffer(4096)
for _ in range(20):
    n = zmq.zmq_recv(socket, answer, 4096, 0)
    if n < 0:
        break
    if b"\xa3say\xa2no" in answer.raw[:n] or b"\xa3say\xa5error" in answer.raw[:n]:
        print(answer.raw[:n].decode(errors="replace"))
        sys.exit(0)
sys.exit(1)
