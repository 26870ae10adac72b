"""What one encoding costs for one message to one set of receivers, on one net."""

import msgspec


class EncodingRow(msgspec.Struct, frozen=True):
    """One encoding, every number counted by sending the packets hop by hop.

    encoding: name of ``encodings/catalog.py``, with its BitString length where it has several.
    placement: how BFR-ids were given out, empty where the encoding has none. refusal: why it
    cannot name these receivers here, empty when it can; then all numbers below are 0.

    Of the message: payload_bytes; n_members receivers, the source not among them; n_packets
    that the source sends, segments of a payload beyond the MTU counted.

    Of headers, without what a unicast copy carries as well: header_bytes of the longest one at
    the source; source_header_bytes of all that leave the source; link_header_bytes on all
    links; n_copies, packets over links, so that their ratio is the mean header of a link.

    Of switches: n_visits, packets that switches handled; n_lookups, table rows read in all;
    most_lookups, of one packet at one switch; entries, rows of the fullest switch that do not
    depend on groups; state_bytes, of those rows; group_entries, rows that this group alone
    takes in all switches together; most_group_entries, in one of them.

    Against the ideal tree (shortest paths, each link once): spurious, copies that reach hosts
    which are no receivers; tree_links of the ideal tree, once for each segment.

    Bytes of payload and headers: source_bytes on the links of the source, link_bytes on all;
    tree_bytes, of the ideal tree without any header; unicast_source_bytes and
    unicast_link_bytes, of one copy for each receiver without any header.
    """

    encoding: str
    placement: str = ""
    refusal: str = ""
    payload_bytes: int = 0
    n_members: int = 0
    n_packets: int = 0
    header_bytes: int = 0
    source_header_bytes: int = 0
    link_header_bytes: int = 0
    n_copies: int = 0
    n_visits: int = 0
    n_lookups: int = 0
    most_lookups: int = 0
    entries: int = 0
    state_bytes: int = 0
    group_entries: int = 0
    most_group_entries: int = 0
    spurious: int = 0
    tree_links: int = 0
    source_bytes: int = 0
    link_bytes: int = 0
    tree_bytes: int = 0
    unicast_source_bytes: int = 0
    unicast_link_bytes: int = 0
