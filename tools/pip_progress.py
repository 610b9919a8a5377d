"""Run pip, and say how far it is: the big downloads and the steps; if it fails, all it printed."""

from __future__ import annotations

import re
import subprocess
import sys

BIG = 5.0  # MB of a download that is told
DOWNLOAD = re.compile(r"\s*Downloading (?:\S*/)?([^\s/]+?)-[\d.]\S* \((\d+(?:\.\d+)?) MB\)")
STEPS = {
    "Building wheel for ": "building {}",
    "Installing collected packages: ": "installing {} package(s)",
}


def progress(line: str) -> str | None:
    """Return what to say about a line of pip's; None: nothing."""
    if (found := DOWNLOAD.match(line)) and float(found[2]) >= BIG:
        return f"downloading {found[1]} ({found[2]} MB)"
    for begin, text in STEPS.items():
        if (rest := line.strip().removeprefix(begin)) != line.strip() and "finished" not in rest:
            return text.format(rest.split()[0] if begin.startswith("Build") else len(rest.split()))
    return None


def main(command: list[str]) -> int:
    """Run the command; return its exit code."""
    printed: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None  # noqa: S101  # it is a pipe
        for line in process.stdout:
            printed.append(line)
            if (text := progress(line)) is not None:
                print(f"setup: {text}", flush=True)
    if process.returncode:
        sys.stderr.writelines(printed)
    return process.returncode


if __name__ == "__main__":
    pip = [sys.executable, "-m", "pip", "install", "--progress-bar", "off"]
    try:
        sys.exit(main([*pip, *sys.argv[1:]]))
    except KeyboardInterrupt:
        sys.exit(130)
