"""What the tests share."""

from __future__ import annotations

import pytest
import txweir

UPLINK = """
title = "a home uplink"
duration = "2s"
warmup = "200ms"

[[host]]
name = "home"
[[host]]
name = "server"

[[link]]
from = "home"
to = "server"
rate = "20mbit"
role = "forwarder"
delay = "10ms"
policy = "qdisc add root handle 1: pfifo limit 3"

[[traffic]]
name = "bulk"
from = "home"
to = "server"
kind = "stream"
count = 2

[[traffic]]
name = "requests"
from = "home"
to = "server"
kind = "rr"
size = "100b"
"""


@pytest.fixture(scope="session")
def uplink() -> txweir.Scenario:
    return txweir.Scenario.from_text(UPLINK, "uplink.toml")
