"""A startup value that is not UTF-8 is the server's to judge: it cleans an application_name and goes on."""
from wire import *


def run(ep):
    c = ep.connect({"application_name": b"caf\xe9"})
    return c.query("show application_name")
