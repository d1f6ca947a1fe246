"""Packs a folder into an archive whose bytes depend on the names and contents of its files alone.

pack.py FOLDER NAME FILE EPOCH: FOLDER/NAME goes into FILE, which ends in `.tar.gz` or `.zip`; EPOCH, in seconds since
1970, is the time of every file.
"""

import gzip
import os
import sys
import tarfile
import time
import zipfile


def members(folder, name):
    """Paths below `folder`, sorted, folders before what is in them; with whether each is a folder, and its mode."""
    found = [name]
    for path, folders, files in os.walk(os.path.join(folder, name)):
        found += [os.path.relpath(os.path.join(path, member), folder) for member in folders + files]
    for member in sorted(found):
        path = os.path.join(folder, member)
        is_folder = os.path.isdir(path)
        runs = is_folder or os.access(path, os.X_OK) or member.endswith(".exe")
        yield path, member.replace(os.sep, "/"), is_folder, 0o755 if runs else 0o644


def pack_tar(folder, name, file, epoch):
    with open(file, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for path, member, _, mode in members(folder, name):
                info = archive.gettarinfo(path, member)
                info.uid = info.gid = 0
                info.uname = info.gname = ""
                info.mtime, info.mode = epoch, mode
                if info.isreg():
                    with open(path, "rb") as content:
                        archive.addfile(info, content)
                else:
                    archive.addfile(info)


def pack_zip(folder, name, file, epoch):
    moment = time.gmtime(epoch)[:6]
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, member, is_folder, mode in members(folder, name):
            info = zipfile.ZipInfo(member + "/" * is_folder, moment)
            info.create_system = 3  # Unix, for the modes
            info.external_attr = (0o040000 if is_folder else 0o100000) + mode << 16
            info.compress_type = zipfile.ZIP_STORED if is_folder else zipfile.ZIP_DEFLATED
            if is_folder:
                archive.writestr(info, b"")
            else:
                with open(path, "rb") as content:
                    archive.writestr(info, content.read())


if __name__ == "__main__":
    folder, name, file, epoch = sys.argv[1:]
    pack = pack_zip if file.endswith(".zip") else pack_tar
    pack(folder, name, file, int(epoch))
