"""A standalone Spark on loopback: a master, two workers of one core each, and the driver in this process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest

from superteach import spark
from tests.spark.workers import worker_ids

HOME = Path(pyspark.__file__).parent
SECONDS = 300
"""How long a process of Spark may take to start; two on an idle machine."""
DEFAULTS = """spark.driver.host 127.0.0.1
spark.driver.memory 512m
spark.executor.memory 512m
spark.ui.enabled false
spark.sql.files.minPartitionNum 4
spark.sql.shuffle.partitions 4
spark.executor.heartbeatInterval 2s
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait_for(done, what):
    end = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < end, f"no {what} after {SECONDS} seconds"
        time.sleep(0.2)


@pytest.fixture(scope="session")
def settings(tmp_path_factory):
    """Environment of every process of Spark, this one included."""
    place = tmp_path_factory.mktemp("spark")
    (place / "spark-defaults.conf").write_text(DEFAULTS, encoding="utf-8")
    told = {
        "SPARK_HOME": str(HOME),
        "SPARK_CONF_DIR": str(place),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": "128m",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    os.environ.update(told)
    # Whoever ends this process ends what it has started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return place


@pytest.fixture(scope="session")
def master(settings):
    """The address of a master with two workers."""
    port, place = free_port(), settings
    address = f"spark://127.0.0.1:{port}"
    started = []

    def start(name, *given):
        command = [str(HOME / "bin/spark-class"), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *given]
        log = place / f"{name}-{len(started)}.log"
        started.append(
            subprocess.Popen(command, stdout=log.open("wb"), stderr=subprocess.STDOUT, start_new_session=True)
        )
        return log

    try:
        told = start("master.Master", "--port", str(port), "--webui-port", "0")
        wait_for(lambda: "Starting Spark master" in told.read_text(), "master")
        logs = [
            start(
                "worker.Worker",
                "--cores",
                "1",
                "--memory",
                "1g",
                "--webui-port",
                "0",
                "--work-dir",
                str(place),
                address,
            )
            for _ in range(2)
        ]
        for one in logs:
            wait_for(lambda one=one: "Successfully registered with master" in one.read_text(), "worker")
        yield address
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="session")
def session(master):
    """The driver."""
    found = spark.session(master)
    found.sparkContext.setLogLevel("ERROR")
    yield found
    found.stop()


@pytest.fixture
def processes(session):
    """`processes()` gives (worker, executor) for every Python worker there is."""
    return lambda: sorted(
        set(map(tuple, session.range(2).mapInArrow(worker_ids, "worker long, executor long").collect()))
    )
