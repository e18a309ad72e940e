"""A server that speaks the part of the Hugging Face hub's interface that an upload takes."""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "hf_of_the_stand_in"


class StandInHub:
    """Repositories in memory: `files[repo][path]` are bytes, `private[repo]` whether it is.

    create_repo, model_info, validate-yaml, preupload, LFS batch and commit, as documented at
    huggingface.co/docs/hub/api; files from 1,000 bytes on, and weights, go through LFS.
    """

    def __init__(self):
        self.files, self.private, self.commits = {}, {}, []
        self.large = {}  # by sha256
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def answer(self, method, path, headers, body):
        """(status, content) of a request."""
        if headers.get("authorization") != f"Bearer {TOKEN}" and not path.startswith("/lfs/"):
            return 401, {"error": "Invalid username or password."}
        parts = path.strip("/").split("/")
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if path.startswith("/lfs/"):
            self.large[parts[1]] = body
            return 200, {}
        if path.endswith("/info/lfs/objects/batch"):
            objects = [
                {**one, "actions": {"upload": {"href": f"{self.url}/lfs/{one['oid']}"}}}
                for one in json.loads(body)["objects"]
            ]
            return 200, {"transfer": "basic", "objects": objects}
        repo = "/".join(parts[2:4])
        if repo not in self.files:
            return 404, {"error": "Repository not found"}
        if parts[4:5] == ["preupload"]:
            return 200, {"files": [self._mode(one) for one in json.loads(body)["files"]]}
        if parts[4:5] == ["commit"]:
            return self._commit(repo, [json.loads(line) for line in body.splitlines() if line.strip()])
        return 200, {"id": repo, "private": self.private[repo], "sha": "0" * 40, "siblings": []}

    def _create(self, wanted):
        repo = f"{wanted['organization']}/{wanted['name']}"
        if wanted["organization"] == "somebody-else":
            return 403, {"error": "You don't have the rights to create a model under this namespace"}
        if repo in self.files:
            return 409, {"error": "You already created this model repo", "url": f"{self.url}/{repo}"}
        self.files[repo] = {}
        private = wanted.get("private") or wanted.get("visibility") == "private"
        self.private[repo] = bool(private)
        return 200, {"url": f"{self.url}/{repo}"}

    @staticmethod
    def _mode(file):
        large = file["size"] >= 1000 or file["path"].endswith(".safetensors")
        return {
            "path": file["path"],
            "uploadMode": "lfs" if large else "regular",
            "shouldIgnore": False,
            "oid": None,
        }

    def _commit(self, repo, lines):
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                self.commits.append(value["summary"])
            elif line["key"] == "file":
                self.files[repo][value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                content = self.large[value["oid"]]
                assert hashlib.sha256(content).hexdigest() == value["oid"]
                self.files[repo][value["path"]] = content
        return 200, {"commitUrl": f"{self.url}/{repo}/commit/1", "commitOid": "1" * 40}

    def _handler(self):
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                path = self.path.partition("?")[0]
                headers = {key.lower(): value for key, value in self.headers.items()}
                status, content = hub.answer(self.command, path, headers, body)
                found = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(found)))
                if "error" in content:
                    self.send_header("x-error-message", content["error"])
                    if status == 404:
                        self.send_header("x-error-code", "RepoNotFound")
                self.end_headers()
                self.wfile.write(found)

            do_GET = do_POST = do_PUT = handle_any  # noqa: N815

            def log_message(self, *arguments):
                pass

        return Handler
