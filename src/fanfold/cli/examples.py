"""Two examples of each verb, shown at the end of its help."""

from typing import Any

EXAMPLES: dict[str, tuple[str, str]] = {
    "demo": ("demo", "demo model.safetensors --hosts 4"),
    "push": ("push model/ --to h1,h3-5", "push model/ --config rack.toml --from h0"),
    "receive": (
        "receive --config rack.toml --node h1 --into incoming",
        "receive --config rack.toml --node h1 --into incoming --fsync",
    ),
    "fabric init": (
        "fabric init rack --hosts h0=10.0.0.10,h1=10.0.0.11 --bfrs leaf1=10.0.0.1",
        "fabric init rack --topology leaf-spine:leaves=2 --addresses 10.1.0.0/24 --senders h0",
    ),
    "fabric reroute": (
        "fabric reroute rack.toml --cut leaf1-spine1 --out next.toml --operator rack/operator",
        "fabric reroute rack.toml --weight leaf1-spine2=3 --out next.toml",
    ),
    "keys init": ("keys init --node h0", "keys init --keys secrets/h0"),
    "keys show": ("keys show --node h0", "keys show --node h0 --json"),
    "keys trust": (
        "keys trust h0 ff1:KEY --node h1 --prefix models --max-bytes 200GB",
        "keys trust h1 h1.pub --node h0 --no-sender",
    ),
    "keys distrust": (
        "keys distrust h0 --node h1",
        "keys distrust h3 --links --config rack.toml",
    ),
    "keys links": (
        "keys links rack.toml --into secret --out rack-keyed.toml",
        "keys links rack.toml --into secret --out rack-keyed.toml --mode on",
    ),
    "keys rekey": (
        "keys rekey --lab lab --revoke h3",
        "keys rekey --config rack.toml --operator rack/operator",
    ),
    "keys rotate": ("keys rotate --node h0", "keys rotate --node h0 --finish"),
    "keys label": (
        "keys label rack.toml --out rack-signed.toml",
        "keys label rack.toml --keys secrets/operator --out rack-signed.toml",
    ),
    "keys check-labels": (
        "keys check-labels rack-signed.toml ff1:KEY",
        "keys check-labels rack-signed.toml operator.pub",
    ),
    "keys software": ("keys software", "keys software --help"),
    "keys verify-receipt": (
        "keys verify-receipt receipts/model.safetensors-0000002a-h1.json --node h0",
        "keys verify-receipt h1.json h2.json --trusted trusted.toml --of push.json",
    ),
    "bfr": ("bfr --config rack.toml --node leaf1", "bfr --config rack.toml --node spine1"),
    "clean": ("clean incoming --older 7", "clean --lab lab --dry-run"),
    "lab up": ("lab up --hosts 8", "lab up --config rack.toml --name rack"),
    "lab status": ("lab status", "lab status --name rack --json"),
    "lab down": ("lab down", "lab down --name rack --purge"),
    "lab reroute": ("lab reroute --cut leaf1-spine1", "lab reroute --weight leaf1-spine2=3"),
    "lab fail": ("lab fail link leaf1-spine1", "lab fail pause h3 3s"),
    "lab exec": ("lab exec h1 ip -s link", "lab exec --name rack leaf1 tcpdump -c 9 -i p1"),
    "lab heal": ("lab heal", "lab heal leaf1-spine1 spine2 --name rack"),
    "top": ("top", "top --once --json --name rack"),
    "lab restart": ("lab restart h3", "lab restart leaf1 --name rack"),
    "bitstring": ("bitstring 1,3-5,300", "bitstring --hex 0x15 --si 1"),
    "decode": ("decode lossy.pcapng --json", "decode - --bsl 256"),
    "dissector": ("dissector", "dissector --help"),
    "topo": ("topo", "topo fat-tree:k=8 --jobs 4"),
    "trees": ("trees", "trees pim-sm --topology fat-tree:k=4 --members 5"),
    "encodings": (
        "encodings --topology fat-tree:k=8 --members 100",
        "encodings --topology fat-tree:k=8 --members 100 --plan",
    ),
    "failures": (
        "failures --schemes fanfold,mldp",
        "failures --topology fat-tree:k=4 --failure link",
    ),
    "planes": (
        "planes --topology superpod:gpus=8,planes=4",
        "planes --fan --size 16MiB",
    ),
    "compare": (
        "compare --topology fat-tree:k=8 --workload broadcast:1MiB --schemes unicast,fanfold",
        "compare examples/lossy.toml",
    ),
    "explain": ("explain 4aabe474", "explain 4aabe474 --packet 63"),
    "gap": ("gap", "gap --numbers --json"),
    "instances": (
        "instances --sessions 3 --fail h3@30s",
        "instances --policies nearest,cats --context 2GB --json",
    ),
    "litmus": ("litmus", "litmus --runs 1000 --seed 7 --json"),
    "reduce-bench": (
        "reduce-bench --sizes 1MiB,64MiB",
        "reduce-bench --collective all --dtype all --op all --sizes 0,1,8193",
    ),
    "peers": (
        "peers model.safetensors --with fanfold,uftp,tcp",
        "peers model.safetensors --loss 0,1% --kill --install",
    ),
    "report": ("report --last", "report 4aabe474 --no-gap"),
    "sim-bench": ("sim-bench", "sim-bench --only S3 --json"),
    "study": (
        "study model-push --model llama3-70b --gpus 1024",
        "study allreduce --gpus 64 --sweep size=1MB,64MB",
    ),
    "vat": (
        "vat --topology fat-tree:k=4 --jobs 2",
        "vat --check examples/figure1_vat.json",
    ),
    "workload": (
        "workload training --model llama3-405b --gpus 8192 --tp 8 --pp 16",
        "workload cold-start --model llama3-70b --replicas 32 --within 10s",
    ),
}


def show_examples(verb: Any, path: str = "") -> None:
    """Give a command, and all below it, the end of its help."""
    lines = EXAMPLES.get(path)
    if lines:
        verb.epilog = "\n\n".join(["Examples:", *(f"fanfold {line}" for line in lines)])
    for name, below in getattr(verb, "commands", {}).items():
        show_examples(below, f"{path} {name}".strip())
