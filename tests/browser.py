"""A headless Chromium, spoken to over two pipes: no port, no network, no library."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-extensions", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe"),
)
ANSWER_S = 60
INSTALL = ("apt-get", "install", "-y", "--no-install-recommends", "chromium")
INSTALL_S = 400


def find_browser() -> str | None:
    """Path of a Chromium, None where there is none."""
    found = (shutil.which(name) for name in NAMES)
    return next((path for path in found if path), None)


def install_browser() -> str:
    """Install one where that is possible; what went wrong, empty when nothing did."""
    if shutil.which("apt-get") is None:
        return "no apt-get here"
    if os.geteuid() != 0:
        return "not root, so apt-get cannot install chromium"
    subprocess.run(["apt-get", "update"], capture_output=True, check=False, timeout=INSTALL_S)
    done = subprocess.run(
        INSTALL,
        capture_output=True,
        text=True,
        check=False,
        timeout=INSTALL_S,
        env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
    )
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["failed"])[-1]


class Browser:
    """One page. Everything it asks for and everything it complains of is kept."""

    def __init__(self, path: str) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="fanfold-browser-")
        to_it, self._write = os.pipe()
        self._read, from_it = os.pipe()

        def place() -> None:
            a, b = os.dup(to_it), os.dup(from_it)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self._process = subprocess.Popen(
            [path, *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"],
            preexec_fn=place,  # noqa: PLW1509 - tests start no thread
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_it)
        os.close(from_it)
        self._left = b""
        self._number = 0
        self._session = ""
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.loaded = False
        (target,) = [
            t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page"
        ]
        told = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = told["sessionId"]
        for part in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{part}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)
        try:
            self._profile.cleanup()
        except OSError:  # a child of it still writes there
            shutil.rmtree(self._profile.name, ignore_errors=True)

    def ask(self, method: str, **params: Any) -> Any:
        """Send one command and wait for its answer."""
        self._number += 1
        word: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            word["sessionId"] = self._session
        os.write(self._write, json.dumps(word).encode() + b"\0")
        end = time.monotonic() + ANSWER_S
        while time.monotonic() < end:
            told = self._next()
            if told.get("id") == self._number:
                if "error" in told:
                    raise AssertionError(f"{method}: {told['error']}")
                return told["result"]
            self._note(told)
        raise AssertionError(f"{method}: no answer in {ANSWER_S} s")

    def open(self, page: Path, *, width: int, scheme: str = "light") -> None:
        """Load a file, wide as asked, as a system in light or dark colours."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=1000,
            deviceScaleFactor=1,
            mobile=False,
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.ask("Emulation.setEmulatedMedia", media="", features=[feature])
        self.loaded = False
        self.ask("Page.navigate", url=page.resolve().as_uri())
        self.until("document.readyState === 'complete'")

    def value(self, expression: str) -> Any:
        """Value of an expression of JavaScript in the page."""
        told = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + ANSWER_S
        while not self.value(expression):
            assert time.monotonic() < end, f"never true: {expression}; {self.complaints}"
            time.sleep(0.05)

    def press(self, key: str) -> None:
        """One key, down and up."""
        codes = {"Tab": 9, "Enter": 13, " ": 32, "ArrowRight": 39, "ArrowLeft": 37}
        text = {"Enter": "\r", " ": " "}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            self.ask(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                text=text if kind == "keyDown" else "",
                windowsVirtualKeyCode=codes[key],
            )

    def picture(self, whole: bool = True) -> bytes:
        """PNG of the page."""
        told = self.ask("Page.captureScreenshot", captureBeyondViewport=whole, format="png")
        return base64.b64decode(told["data"])

    def paper(self) -> bytes:
        """The page as it is printed."""
        told = self.ask("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        return base64.b64decode(told["data"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            got = os.read(self._read, 1 << 20)
            assert got, "the browser went away"
            self._left += got
        word, _, self._left = self._left.partition(b"\0")
        told: dict[str, Any] = json.loads(word)
        return told

    def _note(self, told: dict[str, Any]) -> None:
        params = told.get("params", {})
        match told.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(params["exceptionDetails"])[:500])
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.complaints.append(json.dumps(params["args"])[:500])
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.complaints.append(json.dumps(params["entry"])[:500])
            case _:
                pass
