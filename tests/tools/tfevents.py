#!/usr/bin/env python3
"""Read TensorBoard's event files without TensorBoard, and check every CRC: tfevents.py FILE.. prints TAG STEP VALUE,
of an image TAG STEP WIDTHxHEIGHT DIGEST."""

import hashlib
import struct
import sys


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(message):
    """Protobuf's wire format: (number, value) of varints, fixed 64, bytes and fixed 32."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}[key & 7] if key & 7 != 2 else varint()
        yield key >> 3, message[at : at + size]
        at += size


assert masked_crc(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF
for path in sys.argv[1:]:
    data = open(path, "rb").read()
    while data:
        (n,) = struct.unpack("<Q", data[:8])
        event = data[12 : 12 + n]
        assert struct.unpack("<I", data[8:12])[0] == masked_crc(data[:8]), "the CRC of a length"
        assert struct.unpack("<I", data[12 + n : 16 + n])[0] == masked_crc(event), "the CRC of an event"
        data = data[16 + n :]
        event = dict(fields(event))
        assert event.get(3, b"brain.Event:2") == b"brain.Event:2"
        for _, value in fields(event.get(5, b"")):
            value = dict(fields(value))
            if 4 in value:
                image = dict(fields(value[4]))
                print(value[1].decode(), event.get(2, 0), f"{image[2]}x{image[1]}", hashlib.sha256(image[4]).hexdigest())
                continue
            print(value[1].decode(), event.get(2, 0), f"{struct.unpack('<f', value[2])[0]:.6g}")
