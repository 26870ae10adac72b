"""A model as a Hugging Face hub cache keeps it: blobs, and a snapshot of links to them."""

import hashlib
import json
from pathlib import Path
from random import Random

SHARDS = 4
TENSORS = 6


def make_hub_cache(top: Path, n_bytes: int, seed: int) -> Path:
    """Write a cache of about so many bytes; returns the snapshot folder."""
    random = Random(seed)
    repo = top / "models--org--model"
    snapshot = repo / "snapshots" / f"{seed:040x}"
    for folder in (repo / "blobs", snapshot / "onnx", repo / "refs"):
        folder.mkdir(parents=True)
    (repo / "refs/main").write_text(snapshot.name)

    def put(name: str, data: bytes) -> None:
        blob = repo / "blobs" / hashlib.sha256(data).hexdigest()
        blob.write_bytes(data)
        depth = name.count("/")
        (snapshot / name).symlink_to("../" * (2 + depth) + f"blobs/{blob.name}")

    weights: dict[str, str] = {}
    for k in range(SHARDS):
        name = f"model-{k + 1:05}-of-{SHARDS:05}.safetensors"
        n_each = n_bytes // SHARDS // TENSORS // 2 * 2
        head = {
            f"layers.{k}.{t}": {
                "dtype": "BF16",
                "shape": [n_each // 2],
                "data_offsets": [t * n_each, (t + 1) * n_each],
            }
            for t in range(TENSORS)
        }
        weights |= dict.fromkeys(head, name)
        words = json.dumps(head).encode()
        put(name, len(words).to_bytes(8, "little") + words + random.randbytes(n_each * TENSORS))
    index = {"metadata": {"total_size": n_bytes}, "weight_map": weights}
    put("model.safetensors.index.json", json.dumps(index).encode())
    put("config.json", b'{"model_type": "toy"}')
    put("tokenizer.json", random.randbytes(200_000))
    put("tokenizer_config.json", b"{}")
    put("onnx/model.onnx", random.randbytes(50_000))
    put("onnx/empty", b"")
    return snapshot
