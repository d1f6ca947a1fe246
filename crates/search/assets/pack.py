#!/usr/bin/env python3
"""Packs a table of word pieces and its vocabulary into the file that the crate embeds: pack.py TABLE_DIR FILE"""
import json
import struct
import sys

folder, target = sys.argv[1:]
vocabulary = json.load(open(folder + "/tokenizer.json"))["model"]["vocab"]
data = open(folder + "/table_i8.safetensors", "rb").read()
(size,) = struct.unpack("<Q", data[:8])
head, body = json.loads(data[8 : 8 + size]), data[8 + size :]


def part(name):
    return body[slice(*head[name]["data_offsets"])]


rows, scales, width = part("table"), part("scale"), head["table"]["shape"][1]
pieces = sorted((piece.encode(), at) for piece, at in vocabulary.items())
with open(target, "wb") as out:
    out.write(b"TCMEAN01" + struct.pack("<II", len(pieces), width))
    end = 0
    for piece, _ in pieces:
        end += len(piece)
        out.write(struct.pack("<I", end))
    for _, at in pieces:
        out.write(scales[4 * at : 4 * at + 4])
    for piece, _ in pieces:
        out.write(piece)
    for _, at in pieces:
        out.write(rows[at * width : (at + 1) * width])
