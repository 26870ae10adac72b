"""Topology files of other programs, written by hand in the form of their documents."""

GML = """# written by hand
Creator "somebody"
graph [
  label "South &amp; West"
  Backbone 1
  node [ id 0 label "Johannesburg" Latitude -26.2 Longitude 28.04 graphics [ x 1 y 2 ] ]
  node [ id 1 label "Cape Town"
    Latitude -33.92 Longitude 18.41 type "Router" ]
  node [ id 2 label "None" ]
  node [ id 3 label "None" ]
  edge [ source 0 target 1 LinkSpeedRaw 10000000000.0 LinkLabel "10 Gbps" ]
  edge [ source 1 target 2 delay "3ms" ]
  edge [ source 2 target 3 ]
  edge [ source 2 target 2 ]
]
"""
ASTRA = """# 3D
topology: [ Ring, FullyConnected, Switch ]  # Ring, Switch, FullyConnected

npus_count: [ 4, 2,
  3 ]
bandwidth:   # GB/s
  - 200.0
  - 100
  - 12.5
latency: [ 50.0, 500.0, 936.25, ]  # ns
"""
NS3 = """7 2 6
5 6
0 5 25Gbps 1000ns 0.000000
1 5 25Gbps 1000ns 0
2 6 25Gbps 0.001ms 0
3 6 25Gbps 1us 0.001
4 6 25Gbps 1us 0
5 6 100Gbps 5us 0
"""
SIMAI = """7 2 2 1 8 H20
4 5 6
0 4 900Gbps 0.000025ms 0
1 4 900Gbps 0.000025ms 0
2 5 900Gbps 0.000025ms 0
3 5 900Gbps 0.000025ms 0
0 6 200Gbps 0.001ms 0
1 6 200Gbps 0.001ms 0
2 6 200Gbps 0.001ms 0
3 6 200Gbps 0.001ms 0
"""
SLURM = """# Slurm's topology/tree
SwitchName=leaf[0] Nodes=tux[0-1,07]  # leaf[0] is one name
switchname=leaf1 NODES=gpu-a,gpu-b LinkSpeed=100
SwitchName=spine \\
   Switches=leaf[0-1]
"""
IB = """#
# Topology file: generated on Mon Nov  2 10:00:00 2026
#
# Initiated from node 248a0703006d0001 port 248a0703006d0002

vendid=0x2c9
devid=0xcb20
sysimgguid=0x248a070300f88a10
switchguid=0x248a070300f88a10(248a070300f88a10)
Switch\t36 "S-248a070300f88a10"\t\t# "leaf 1" enhanced port 0 lid 1 lmc 0
[1]\t"H-248a0703006d0001"[1](248a0703006d0002) \t\t# "node01 mlx5_0" lid 4 4xEDR s=32 w=2 e=4
[2]\t"H-248a0703006d0003"[1](248a0703006d0004) \t\t# "node02 mlx5_0" lid 5 4xHDR
[35]\t"S-248a070300f88a20"[3]\t\t# "spine 1" lid 2 4x???
[36]\t"H-248a0703006d0009"[1](9) \t\t# "Mellanox Technologies Aggregation Node" lid 9 4xHDR

switchguid=0x248a070300f88a20(248a070300f88a20)
Switch\t36 "S-248a070300f88a20"\t\t# "spine 1" enhanced port 0 lid 2 lmc 0
[3][ext 5]\t"S-248a070300f88a10"[35]\t\t# "leaf 1" lid 1 4x???
[4]\t"H-248a0703006d0005"[1](248a0703006d0006) \t\t# "node02 mlx5_1" lid 6 4xFDR

caguid=0x248a0703006d0001
Ca\t1 "H-248a0703006d0001"\t\t# "node01 mlx5_0"
[1](248a0703006d0002) \t"S-248a070300f88a10"[1]\t\t# lid 4 lmc 0 "leaf 1" lid 1 4xEDR
Ca\t1 "H-248a0703006d0003"\t\t# "node02 mlx5_0"
[1](248a0703006d0004) \t"S-248a070300f88a10"[2]\t\t# lid 5 lmc 0 "leaf 1" lid 1 4xHDR
Ca\t1 "H-248a0703006d0005"\t\t# "node02 mlx5_1"
[1](248a0703006d0006) \t"S-248a070300f88a20"[4]\t\t# lid 6 lmc 0 "spine 1" lid 2 4xFDR
Ca\t1 "H-248a0703006d0009"\t\t# "Mellanox Technologies Aggregation Node"
[1](9) \t"S-248a070300f88a10"[36]\t\t# lid 9 lmc 0 "leaf 1" lid 1 4xHDR
"""
GRAPHML = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="n" for="node" attr.name="label" attr.type="string"/>
  <key id="a" for="node" attr.name="Latitude" attr.type="double"/>
  <key id="o" for="node" attr.name="Longitude" attr.type="double"/>
  <graph edgedefault="undirected">
    <node id="0">
      <data key="n">Quito</data><data key="a">0</data><data key="o">-90.0</data>
    </node>
    <node id="1">
      <data key="n">Nairobi</data><data key="a">0.0</data><data key="o">90</data>
    </node>
    <edge source="0" target="1"/>
    <edge source="1" target="1"/>
  </graph>
</graphml>
"""
SAMPLES = {
    "zoo.gml": GML,
    "network.yml": ASTRA,
    "topology.txt": NS3,
    "simai.txt": SIMAI,
    "fabric.txt": IB,
    "topology.conf": SLURM,
    "places.graphml": GRAPHML,
}
TOPO = """# eight hosts in two pods
Nodes 8
Tiers 3
Podsize 4

Tier 0
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000

tier 1
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 4
Downlink_Latency_ns 2000
Switch_Latency_ns 30
Queue_Down 100000

Tier 2
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 3000
Bundle 2
"""
NODE_LINK = """{"directed": false, "nodes": [
  {"id": 0, "kind": "Host"}, {"id": "x", "role": "router"}, {"id": "g", "type": "gpu"}],
  "links": [{"source": "g", "target": "x", "rate": "400Gbps", "delay": 700},
            {"source": "x", "target": 0, "bps": 1000000000}]}
"""

FAULTS = (
    ("zoo.gml", "id 0 ", "", "line 6 node.id: got 'nothing', allowed: a number or a text"),
    ("zoo.gml", "id 1 ", "id 0 ", "line 7 node: got '0', allowed: a node that is named once"),
    ("zoo.gml", "target 3", "target 9", "line 13 edge: got '9', allowed: the name of a node"),
    ("zoo.gml", "target 3", "target", "line 13 target: got ']', allowed: a number, a text"),
    ("zoo.gml", '"10 Gbps"', '"10 Gbps', "line 12: got '3ms', allowed: a key of GML"),
    ("zoo.gml", "28.04", "281", "node 0.Longitude: got '281', allowed: degrees, -180..180"),
    ("zoo.gml", "Latitude -33", "Latitude =3", "line 8 Latitude: got '=3.92', allowed: a n"),
    ("zoo.gml", "]\n]", "]", "line 3: got 'graph', allowed: its ] before the file ends"),
    ("zoo.gml", "graph [", "tree [", "zoo.gml: got '0 graphs'"),
    ("network.yml", "[ Ring,", "[ Rng,", "line 2 topology[0]: got 'Rng'; did you mean Ring"),
    ("network.yml", "4, 2,", "4, 1,", "line 4 npus_count[1]: got '1', allowed: a number, 2.."),
    ("network.yml", "4, 2,", "4,", "line 4 npus_count: got '2 values', allowed: 3, as many"),
    ("network.yml", "4, 2,", "4000, 20,", "npus_count: got '240000 NPUs', allowed: at most"),
    ("network.yml", "- 100", "- fast", "line 8 bandwidth[1]: got 'fast', allowed: a numb"),
    ("network.yml", "936.25, ]", "936.25", "line 10: got 'latency: [ 50.0, 500.0, 936.25'"),
    ("network.yml", "  - 100", "  100", "line 8: got '100', allowed: KEY: [ VALUE, VALUE ]"),
    ("network.yml", "topology", "topo", "topology: got 'nothing', allowed: a list"),
    ("topology.txt", "7 2 6", "7 2", "line 1: got '7 2', allowed: three numbers: nodes, sw"),
    ("topology.txt", "7 2 6", "7 7 6", "switches: got 7, allowed: fewer than the 7 nodes"),
    ("topology.txt", "7 2 6", "7 2 7", "end of file: got 'nothing', allowed: link 7 of 7: "),
    ("topology.txt", "7 2 6", "7 2 5", "line 8: got '5', allowed: 5 links, as line 1 says"),
    ("topology.txt", "5 6\n", "5 5\n", "line 2: got 5, allowed: each switch once"),
    ("topology.txt", "1 5 25", "1 9 25", "line 4: got '9', allowed: a number, 0..6"),
    ("topology.txt", "25Gbps 1us 0.001", "25G 1us 0", "line 6.rate: got '25G'"),
    ("topology.txt", "0.001\n", "2\n", "line 6: got '2', allowed: an error rate, 0..1"),
    ("topology.conf", "leaf[0-1]", "leaf[0-2]", "line 4: got 'leaf2', allowed: the name of"),
    ("topology.conf", "tux[0-1", "tux[1-0", "line 2: got 'tux[1-0,07]', allowed: ranges th"),
    ("topology.conf", "tux[0-1,07]", "tux[0-1,07", "allowed: a host list, such as tux[0-3"),
    ("topology.conf", "NODES=", "Nods=", "line 3: got 'Nods=gpu-a,gpu-b'; did you mean Nodes?"),
    ("topology.conf", "=leaf1 NODES", "=leaf0 NODES", "line 3 SwitchName: got 'leaf0', all"),
    ("topology.conf", "gpu-a", "spine", "line 3 Nodes: got 'spine', allowed: a node, not"),
    ("fabric.txt", "4 4xEDR s", "4 4xQQR s", "line 11: got '4xQQR', allowed: a speed of"),
    ("fabric.txt", "[35]\t", "[2]\t", "line 13: got '[2]', allowed: each port of S-248a07"),
    ("fabric.txt", '88a10"[2]\t', '88a10"[1]\t', "[2], as line 12 says"),
    ("fabric.txt", "Ca\t1 ", "Ca\t", 'got \'Ca\\t"H-248a0703006d0001"'),
    ("fabric.txt", 'Ca\t1 "H-248a0703006d0001"', "", "H-248a0703006d0001"),
    ("places.graphml", ">90<", ">900<", "node 1.Longitude: got '900.0', allowed: degrees"),
)
"""File, what is exchanged for what, and what the refusal says."""
