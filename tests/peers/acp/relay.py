"""Stands between a client that starts its agent and a door on a unix socket: the bytes of one are the bytes of the other."""

import socket
import sys
import threading

door = socket.socket(socket.AF_UNIX)
door.connect(sys.argv[1])


def send() -> None:
    while chunk := sys.stdin.buffer.raw.read(65536):
        door.sendall(chunk)
    door.shutdown(socket.SHUT_WR)


threading.Thread(target=send, daemon=True).start()
while chunk := door.recv(65536):
    sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()
