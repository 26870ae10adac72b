-- Wireshark dissector for BIER (RFC 8296, non-MPLS form) over UDP 8138 and Ethertype 0xAB37,
-- and for the fanfold messages inside. docs/wire/ has the layouts.
--
--   tshark -X lua_script:$(fanfold dissector) -r capture.pcapng
--
-- With the file that `--keylog` wrote, by -o fanfold_bier.keylog:FILE or FANFOLD_KEYLOG, it
-- checks trailers of links (docs/wire/link-keys.md) of up to 1,024 octets that they cover, and
-- opens the payload of sealed pushes. Runs on Wireshark 4.0 and later. The names fanfold_bier and
-- fanfold do not clash with the "bier" protocol that Wireshark 4.4 has for the MPLS form.

local BIER_UDP_PORT = 8138
local FANFOLD_PORT = 8139
local BIER_ETHERTYPE = 0xAB37
local BIER_FIXED_BYTES = 12
local PROTO_IPV4 = 4

local bier = Proto("fanfold_bier", "BIER, non-MPLS form")
local fan = Proto("fanfold", "fanfold")

local protos = {
  [0] = "reserved", [1] = "MPLS, downstream label", [2] = "MPLS, upstream label",
  [3] = "Ethernet", [4] = "IPv4", [5] = "OAM", [6] = "IPv6", [7] = "VXLAN",
  [8] = "NVGRE", [9] = "GENEVE",
}
local kinds = { [1] = "DATA", [2] = "FEEDBACK", [3] = "ASK", [4] = "REPORT", [5] = "CLOSE",
  [6] = "FOLD up", [7] = "FOLD down", [8] = "HELLO", [9] = "NOTICE",
  [10] = "HANDSHAKE" }
local steps = { [1] = "first", [2] = "second", [3] = "cookie", [4] = "known" }
local sessions = { [0] = "admin down", [1] = "down", [2] = "init", [3] = "up" }
local whats = { [0] = "ARRAY", [1] = "REQUEST", [2] = "HEARD", [3] = "ARM", [4] = "CLOSE" }
local ops = { [0] = "sum", [1] = "product", [2] = "min", [3] = "max", [4] = "move" }
local words = { [0] = "32-bit", [1] = "64-bit", [2] = "16-bit", [3] = "bytes",
  [4] = "32-bit fixed-point", [5] = "64-bit fixed-point" }
local scopes = { [0] = "all", [1] = "only", [2] = "all but" }
local states = { [0] = "UNKNOWN", [1] = "CHECKING", [2] = "READY", [3] = "DONE", [4] = "FAILED",
  [5] = "FINISHING" }
local errors = {
  [0] = "none", [1] = "disk_full", [2] = "collision", [3] = "permission", [4] = "bad_path",
  [5] = "bad_manifest", [6] = "io", [7] = "closed", [8] = "too_large",
  [9] = "refused",
}
local reasons = { [0] = "done", [1] = "aborted", [2] = "gone" }
local asks = { [0] = "status", [1] = "receipt" }

local b = {
  bift_id = ProtoField.uint32("fanfold_bier.bift_id", "BIFT-id", base.HEX),
  sub_domain = ProtoField.uint8("fanfold_bier.sub_domain", "Sub-domain"),
  si = ProtoField.uint8("fanfold_bier.si", "SI"),
  tc = ProtoField.uint8("fanfold_bier.tc", "TC"),
  s = ProtoField.uint8("fanfold_bier.s", "S"),
  ttl = ProtoField.uint8("fanfold_bier.ttl", "TTL"),
  nibble = ProtoField.uint8("fanfold_bier.nibble", "Nibble"),
  ver = ProtoField.uint8("fanfold_bier.ver", "Version"),
  bsl = ProtoField.uint8("fanfold_bier.bsl", "BSL code"),
  bitstring_bits = ProtoField.uint16("fanfold_bier.bitstring_bits", "BitString bits"),
  entropy = ProtoField.uint32("fanfold_bier.entropy", "Entropy", base.HEX),
  oam = ProtoField.uint8("fanfold_bier.oam", "OAM"),
  rsv = ProtoField.uint8("fanfold_bier.rsv", "Rsv"),
  dscp = ProtoField.uint8("fanfold_bier.dscp", "DSCP"),
  proto = ProtoField.uint8("fanfold_bier.proto", "Proto", base.DEC, protos),
  bfir_id = ProtoField.uint16("fanfold_bier.bfir_id", "BFIR-id"),
  bitstring = ProtoField.bytes("fanfold_bier.bitstring", "BitString"),
  bfr_id = ProtoField.uint32("fanfold_bier.bfr_id", "BFR-id addressed"),
}

-- Trailers and key logs: in a file of their own, beside this one.
local keys = dofile(debug.getinfo(1, "S").source:match("^@(.*[/\\])") .. "fanfold_keys.lua")
local TRAILER_BYTES = keys.TRAILER_BYTES
keys.add_fields(bier, b)
bier.fields = b

local f = {
  version = ProtoField.uint8("fanfold.version", "Version"),
  kind = ProtoField.uint8("fanfold.kind", "Kind", base.DEC, kinds),
  flow = ProtoField.uint32("fanfold.flow", "Flow", base.HEX),
  block = ProtoField.uint32("fanfold.block", "Block"),
  n_psn = ProtoField.uint8("fanfold.n_psn", "Packets in block"),
  psn = ProtoField.uint8("fanfold.psn", "PSN"),
  round = ProtoField.uint8("fanfold.round", "Round"),
  first_ttl = ProtoField.uint8("fanfold.first_ttl", "First TTL"),
  stride = ProtoField.uint16("fanfold.stride", "Stride"),
  data_flags = ProtoField.uint8("fanfold.data_flags", "Flags", base.HEX),
  poll = ProtoField.bool("fanfold.poll", "POLL", 8, nil, 0x01),
  last = ProtoField.bool("fanfold.last", "LAST", 8, nil, 0x02),
  repair = ProtoField.bool("fanfold.repair", "REPAIR", 8, nil, 0x04),
  source = ProtoField.bool("fanfold.source", "SOURCE", 8, nil, 0x08),
  payload = ProtoField.bytes("fanfold.payload", "Payload"),
  opened = ProtoField.bytes("fanfold.opened", "Payload, opened"),
  feedback_flags = ProtoField.uint8("fanfold.feedback_flags", "Flags", base.HEX),
  partial = ProtoField.bool("fanfold.partial", "PARTIAL", 8, nil, 0x01),
  spent = ProtoField.bool("fanfold.spent", "SPENT", 8, nil, 0x02),
  more = ProtoField.bool("fanfold.more", "MORE", 8, nil, 0x04),
  early = ProtoField.bool("fanfold.early", "EARLY", 8, nil, 0x08),
  n_rows = ProtoField.uint8("fanfold.n_rows", "Rows"),
  queue = ProtoField.uint8("fanfold.queue", "Worst queue"),
  room = ProtoField.uint8("fanfold.room", "Worst room"),
  bift_id = ProtoField.uint32("fanfold.bift_id", "BIFT-id", base.HEX),
  behind = ProtoField.uint16("fanfold.behind", "Blocks behind", base.DEC, nil, 0x0FFF),
  worst = ProtoField.uint16("fanfold.worst", "Worst BFR-id"),
  n_merged = ProtoField.uint16("fanfold.n_merged", "Reports merged"),
  heard = ProtoField.bytes("fanfold.heard", "Heard (P-BM)"),
  done = ProtoField.bytes("fanfold.done", "Done"),
  row = ProtoField.bytes("fanfold.row", "Row"),
  row_psn = ProtoField.uint8("fanfold.row_psn", "PSN"),
  lacking = ProtoField.bytes("fanfold.lacking", "Lacking"),
  what = ProtoField.uint8("fanfold.what", "What", base.DEC, asks),
  cursor = ProtoField.uint32("fanfold.cursor", "Cursor"),
  nonce = ProtoField.uint32("fanfold.nonce", "Nonce", base.HEX),
  state = ProtoField.uint8("fanfold.state", "State", base.DEC, states),
  bfr_id = ProtoField.uint16("fanfold.bfr_id", "BFR-id"),
  n_have = ProtoField.uint32("fanfold.n_have", "Chunks verified"),
  error = ProtoField.uint16("fanfold.error", "Error", base.DEC, errors),
  body_len = ProtoField.uint16("fanfold.body_len", "Body length"),
  elapsed_us = ProtoField.uint64("fanfold.elapsed_us", "Elapsed (us)"),
  digest = ProtoField.bytes("fanfold.digest", "BLAKE3"),
  body = ProtoField.bytes("fanfold.body", "Have-map slice"),
  text = ProtoField.string("fanfold.text", "Text"),
  mac = ProtoField.bytes("fanfold.mac", "MAC of the pair"),
  signature = ProtoField.bytes("fanfold.signature", "Signature"),
  reason = ProtoField.uint8("fanfold.reason", "Reason", base.DEC, reasons),
  fold_what = ProtoField.uint8("fanfold.fold_what", "What", base.DEC, whats),
  fold_flags = ProtoField.uint8("fanfold.fold_flags", "Flags", base.HEX),
  op = ProtoField.uint8("fanfold.op", "Operator", base.DEC, ops),
  word = ProtoField.uint8("fanfold.word", "Word", base.DEC, words),
  group = ProtoField.uint32("fanfold.group", "Group", base.HEX),
  exponent = ProtoField.uint16("fanfold.exponent", "Exponent of the next block"),
  n_codes = ProtoField.uint16("fanfold.n_codes", "Bytes of exponents of the next block"),
  codes = ProtoField.bytes("fanfold.codes", "Exponents of the next block"),
  only = ProtoField.uint16("fanfold.only", "Only BFR-id"),
  scope = ProtoField.uint8("fanfold.scope", "Scope", base.DEC, scopes),
  root_level = ProtoField.uint8("fanfold.root_level", "Root level"),
  n_slots = ProtoField.uint16("fanfold.n_slots", "Slots"),
  patience = ProtoField.uint16("fanfold.patience", "Patience (ms)"),
  words = ProtoField.bytes("fanfold.words", "Words"),
  session = ProtoField.uint8("fanfold.session", "State of the session", base.DEC, sessions),
  asks_answer = ProtoField.bool("fanfold.asks_answer", "POLL", 8, nil, 0x20),
  is_answer = ProtoField.bool("fanfold.is_answer", "FINAL", 8, nil, 0x10),
  checksum = ProtoField.uint16("fanfold.checksum", "Checksum", base.HEX),
  diag = ProtoField.uint8("fanfold.diag", "Diagnostic"),
  detect_mult = ProtoField.uint8("fanfold.detect_mult", "Detect Mult"),
  lag_ms = ProtoField.uint16("fanfold.lag_ms", "Lag (ms)"),
  fabric = ProtoField.uint32("fanfold.fabric", "Fabric", base.HEX),
  my_disc = ProtoField.uint32("fanfold.my_disc", "My Discriminator", base.HEX),
  your_disc = ProtoField.uint32("fanfold.your_disc", "Your Discriminator", base.HEX),
  interval_us = ProtoField.uint32("fanfold.interval_us", "Interval (us)"),
  wanted_us = ProtoField.uint32("fanfold.wanted_us", "Interval wanted (us)"),
  states_digest = ProtoField.uint64("fanfold.states_digest", "Digest of states", base.HEX),
  origin = ProtoField.uint16("fanfold.origin", "Origin"),
  n_ports = ProtoField.uint16("fanfold.n_ports", "Ports"),
  seq = ProtoField.uint64("fanfold.seq", "Sequence"),
  down = ProtoField.bytes("fanfold.down", "Ports lost"),
  step = ProtoField.uint8("fanfold.step", "Step", base.DEC, steps),
  hears_on = ProtoField.uint16("fanfold.hears_on", "UDP port that it hears on"),
  session_number = ProtoField.uint32("fanfold.session_number", "Session", base.HEX),
  proof = ProtoField.bytes("fanfold.proof", "Proof of who it is for"),
  cookie = ProtoField.bytes("fanfold.cookie", "Cookie"),
  noise = ProtoField.bytes("fanfold.noise", "Noise message"),
}
fan.fields = f

-- The expert infos name the same reasons as fanfold's WireReason.
local e = {
  truncated = ProtoExpert.new("fanfold_bier.truncated", "truncated",
    expert.group.MALFORMED, expert.severity.ERROR),
  bad_version = ProtoExpert.new("fanfold_bier.bad_version", "bad_version",
    expert.group.MALFORMED, expert.severity.ERROR),
  bad_bift_id = ProtoExpert.new("fanfold_bier.bad_bift_id", "bad_bift_id",
    expert.group.MALFORMED, expert.severity.ERROR),
  bad_bsl = ProtoExpert.new("fanfold_bier.bad_bsl", "bad_bsl",
    expert.group.MALFORMED, expert.severity.ERROR),
  bsl_mismatch = ProtoExpert.new("fanfold_bier.bsl_mismatch", "bsl_mismatch",
    expert.group.MALFORMED, expert.severity.ERROR),
}
bier.experts = e

local fe = {
  truncated = ProtoExpert.new("fanfold.truncated", "truncated",
    expert.group.MALFORMED, expert.severity.ERROR),
  trailing = ProtoExpert.new("fanfold.trailing", "trailing",
    expert.group.MALFORMED, expert.severity.ERROR),
  bad_version = ProtoExpert.new("fanfold.bad_version", "bad_version",
    expert.group.MALFORMED, expert.severity.ERROR),
  bad_kind = ProtoExpert.new("fanfold.bad_kind", "bad_kind",
    expert.group.MALFORMED, expert.severity.ERROR),
  bad_bift_id = ProtoExpert.new("fanfold.bad_bift_id", "bad_bift_id",
    expert.group.MALFORMED, expert.severity.ERROR),
}
fan.experts = fe

-- Bytes of BitString for a BSL code 1..7; nil for other codes (RFC 8296 2.1.2).
local bitstring_sizes = { 8, 16, 32, 64, 128, 256, 512 }
local bit_weights = { 1, 2, 4, 8, 16, 32, 64, 128 }

local function bitstring_bytes(bsl)
  return bitstring_sizes[bsl]
end

-- One generated item for each BFR-id in a BitString.
local function add_ids(tree, range, n_bytes, si)
  for index = n_bytes - 1, 0, -1 do
    local octet = range(index, 1):uint()
    for bit, weight in ipairs(bit_weights) do
      if octet % (2 * weight) >= weight then
        local id = si * n_bytes * 8 + (n_bytes - 1 - index) * 8 + bit
        tree:add(b.bfr_id, range(index, 1), id):set_generated()
      end
    end
  end
end

-- Why a header is refused, in the order of docs/wire/bier-udp.md section 2.
local function bier_refusal(buf, n_bytes)
  local bsl = buf(5, 1):bitfield(0, 4)
  if buf(4, 1):bitfield(4, 4) ~= 0 then return e.bad_version end
  if n_bytes == nil then return e.bad_bift_id end
  if bitstring_bytes(bsl) == nil then return e.bad_bsl end
  if bsl ~= buf(0, 1):bitfield(0, 4) then return e.bsl_mismatch end
  if buf:len() < BIER_FIXED_BYTES + n_bytes then return e.truncated end
  return nil
end

local function add_bier_words(tree, buf, bsl)
  local id = tree:add(b.bift_id, buf(0, 3), buf(0, 3):bitfield(0, 20))
  id:add(b.sub_domain, buf(0, 2), buf(0, 2):bitfield(4, 8))
  id:add(b.si, buf(1, 2), buf(1, 2):bitfield(4, 8))
  if bitstring_bytes(bsl) then
    id:add(b.bitstring_bits, buf(0, 1), bitstring_bytes(bsl) * 8):set_generated()
  end
  tree:add(b.tc, buf(2, 1), buf(2, 1):bitfield(4, 3))
  tree:add(b.s, buf(2, 1), buf(2, 1):bitfield(7, 1))
  tree:add(b.ttl, buf(3, 1))
  tree:add(b.nibble, buf(4, 1), buf(4, 1):bitfield(0, 4))
  tree:add(b.ver, buf(4, 1), buf(4, 1):bitfield(4, 4))
  tree:add(b.bsl, buf(5, 1), buf(5, 1):bitfield(0, 4))
  tree:add(b.entropy, buf(5, 3), buf(5, 3):bitfield(4, 20))
  tree:add(b.oam, buf(8, 1), buf(8, 1):bitfield(0, 2))
  tree:add(b.rsv, buf(8, 1), buf(8, 1):bitfield(2, 2))
  tree:add(b.dscp, buf(8, 2), buf(8, 2):bitfield(4, 6))
  tree:add(b.proto, buf(9, 1), buf(9, 1):bitfield(2, 6))
  tree:add(b.bfir_id, buf(10, 2))
end

-- What is said to the next node only: docs/wire/link.md section 1.
local LINK_WORD = 0x000001FF

function bier.dissector(buf, pinfo, root)
  if buf:len() >= 4 and buf(0, 4):uint() == LINK_WORD then
    local n = keys.link_bytes(buf)
    if n and buf:len() == 4 + n + TRAILER_BYTES then
      fan.dissector(buf(4, n):tvb(), pinfo, root)
      keys.add_trailer(root:add(bier, buf(4 + n), "Link with keys"), buf, nil)
    else
      fan.dissector(buf(4):tvb(), pinfo, root)
    end
    return buf:len()
  end
  pinfo.cols.protocol = "BIER"
  local tree = root:add(bier, buf(), "Bit Index Explicit Replication, non-MPLS form")
  if buf:len() < BIER_FIXED_BYTES then
    tree:add_proto_expert_info(e.truncated)
    return buf:len()
  end
  -- RFC 8296 2.1.2: the length comes from the BIFT-id, never from the BSL field.
  local bsl = buf(0, 1):bitfield(0, 4)
  local n_bytes = bitstring_bytes(bsl)
  add_bier_words(tree, buf, bsl)
  local refusal = bier_refusal(buf, n_bytes)
  if refusal then
    tree:add_proto_expert_info(refusal)
    return buf:len()
  end
  local size = BIER_FIXED_BYTES + n_bytes
  local bits = tree:add(b.bitstring, buf(BIER_FIXED_BYTES, n_bytes))
  add_ids(bits, buf(BIER_FIXED_BYTES, n_bytes), n_bytes, buf(1, 2):bitfield(4, 8))
  tree:set_len(size)
  if buf:len() > size then
    local is_ipv4 = buf(9, 1):bitfield(2, 6) == PROTO_IPV4
    local next_name = is_ipv4 and "ip" or "data"
    local n = buf:len() - size
    if is_ipv4 and n > 28 and n - buf(size + 2, 2):uint() == TRAILER_BYTES then
      keys.add_trailer(tree, buf, size + 28)
      n = n - TRAILER_BYTES
    end
    Dissector.get(next_name):call(buf(size, n):tvb(), pinfo, root)
  end
  return buf:len()
end

local function add_data(tree, buf)
  local flags = tree:add(f.data_flags, buf(1, 1))
  flags:add(f.poll, buf(1, 1))
  flags:add(f.last, buf(1, 1))
  flags:add(f.repair, buf(1, 1))
  flags:add(f.source, buf(1, 1))
  tree:add(f.n_psn, buf(2, 1))
  tree:add(f.psn, buf(3, 1))
  tree:add(f.flow, buf(4, 4))
  tree:add(f.block, buf(8, 4))
  tree:add(f.round, buf(12, 1))
  tree:add(f.first_ttl, buf(13, 1))
  tree:add(f.stride, buf(14, 2))
  if buf:len() > 16 then
    tree:add(f.payload, buf(16))
    keys.add_opened(tree, buf, f.opened)
  end
  return buf:len()
end

local function add_rows(tree, buf, at, n_rows, n_bytes)
  for _ = 1, n_rows do
    local row = tree:add(f.row, buf(at, 4 + n_bytes))
    row:add(f.row_psn, buf(at, 1))
    row:add(f.lacking, buf(at + 4, n_bytes))
    at = at + 4 + n_bytes
  end
end

local function add_feedback(tree, buf)
  local flags = tree:add(f.feedback_flags, buf(1, 1))
  for _, flag in ipairs({ f.partial, f.spent, f.more, f.early }) do
    flags:add(flag, buf(1, 1))
  end
  tree:add(f.n_psn, buf(2, 1))
  tree:add(f.n_rows, buf(3, 1))
  tree:add(f.flow, buf(4, 4))
  tree:add(f.block, buf(8, 4))
  tree:add(f.round, buf(12, 1))
  tree:add(f.queue, buf(13, 1))
  tree:add(f.room, buf(14, 1))
  tree:add(f.bift_id, buf(16, 3), buf(16, 3):bitfield(0, 20))
  tree:add(f.behind, buf(18, 2))
  tree:add(f.worst, buf(20, 2))
  tree:add(f.n_merged, buf(22, 2))
  local n_bytes = bitstring_bytes(buf(16, 1):bitfield(0, 4))
  if n_bytes == nil then
    tree:add_proto_expert_info(fe.bad_bift_id)
    return buf:len()
  end
  local n_rows = buf(3, 1):uint()
  local size = 24 + 2 * n_bytes + n_rows * (4 + n_bytes)
  if buf:len() < size then return size end
  tree:add(f.heard, buf(24, n_bytes))
  tree:add(f.done, buf(24 + n_bytes, n_bytes))
  add_rows(tree, buf, 24 + 2 * n_bytes, n_rows, n_bytes)
  return size
end

local function add_ask(tree, buf)
  tree:add(f.what, buf(1, 1))
  tree:add(f.flow, buf(4, 4))
  tree:add(f.cursor, buf(8, 4))
  tree:add(f.nonce, buf(12, 4))
  return 16
end

local function add_report(tree, buf)
  tree:add(f.state, buf(1, 1))
  tree:add(f.bfr_id, buf(2, 2))
  tree:add(f.flow, buf(4, 4))
  tree:add(f.cursor, buf(8, 4))
  tree:add(f.nonce, buf(12, 4))
  tree:add(f.n_have, buf(16, 4))
  tree:add(f.error, buf(20, 2))
  tree:add(f.body_len, buf(22, 2))
  tree:add(f.elapsed_us, buf(24, 8))
  tree:add(f.digest, buf(32, 32))
  tree:add(f.mac, buf(64, 16))
  local size = 80 + buf(22, 2):uint()
  if size > 80 and buf:len() >= size then
    local state = buf(1, 1):uint()
    local is_text = state == 4 or state == 1
    tree:add(is_text and f.text or f.body, buf(80, size - 80))
  end
  return size
end

local function add_close(tree, buf)
  tree:add(f.reason, buf(1, 1))
  tree:add(f.flow, buf(4, 4))
  tree:add(f.nonce, buf(8, 4))
  tree:add(f.signature, buf(16, 64))
  return 80
end

local function add_fold(tree, buf)
  tree:add(f.fold_what, buf(1, 1))
  tree:add(f.fold_flags, buf(2, 1), buf(2, 1):bitfield(2, 6))
  tree:add(f.op, buf(3, 1), buf(3, 1):bitfield(0, 4))
  tree:add(f.word, buf(3, 1), buf(3, 1):bitfield(4, 4))
  tree:add(f.group, buf(4, 4))
  tree:add(f.block, buf(8, 4))
  local is_fixed = buf(3, 1):bitfield(4, 4) >= 4
  tree:add(is_fixed and f.n_codes or f.exponent, buf(12, 2))
  tree:add(f.n_merged, buf(14, 2))
  tree:add(f.only, buf(16, 2))
  tree:add(f.scope, buf(18, 1))
  tree:add(f.root_level, buf(19, 1))
  tree:add(f.n_slots, buf(20, 2))
  tree:add(f.patience, buf(22, 2))
  local at = 24
  if is_fixed and buf(1, 1):uint() == 0 and buf(12, 2):uint() > 0 then
    local n = math.min(buf(12, 2):uint(), buf:len() - at)
    if n > 0 then
      tree:add(f.codes, buf(at, n))
    end
    at = at + n
  end
  if buf:len() > at then
    tree:add(buf(1, 1):uint() == 2 and f.heard or f.words, buf(at))
  end
  return buf:len()
end

local function add_hello(tree, buf)
  tree:add(f.session, buf(1, 1), buf(1, 1):bitfield(0, 2))
  tree:add(f.asks_answer, buf(1, 1))
  tree:add(f.is_answer, buf(1, 1))
  tree:add(f.checksum, buf(2, 2))
  tree:add(f.diag, buf(4, 1))
  tree:add(f.detect_mult, buf(5, 1))
  tree:add(f.lag_ms, buf(6, 2))
  tree:add(f.fabric, buf(8, 4))
  tree:add(f.my_disc, buf(12, 4))
  tree:add(f.your_disc, buf(16, 4))
  tree:add(f.interval_us, buf(20, 4))
  tree:add(f.wanted_us, buf(24, 4))
  tree:add(f.states_digest, buf(28, 8))
  return 36
end

local function add_notice(tree, buf)
  tree:add(f.checksum, buf(2, 2))
  tree:add(f.fabric, buf(4, 4))
  tree:add(f.origin, buf(8, 2))
  tree:add(f.n_ports, buf(10, 2))
  tree:add(f.seq, buf(12, 8))
  local n_bytes = math.floor((buf(10, 2):uint() + 7) / 8)
  if n_bytes > 0 and buf:len() >= 20 + n_bytes then tree:add(f.down, buf(20, n_bytes)) end
  return 20 + n_bytes
end

local function add_handshake(tree, buf)
  tree:add(f.step, buf(1, 1))
  tree:add(f.hears_on, buf(2, 2))
  tree:add(f.session_number, buf(4, 4))
  tree:add(f.proof, buf(8, 16))
  tree:add(f.cookie, buf(24, 16))
  local step = buf(1, 1):uint()
  local n_body = step == 1 and 104 or step == 2 and 52 or 0
  if n_body > 0 and buf:len() >= 40 + n_body then tree:add(f.noise, buf(40, n_body)) end
  return 40 + n_body
end

local messages = {
  [1] = { fixed = 16, add = add_data },
  [2] = { fixed = 24, add = add_feedback },
  [3] = { fixed = 16, add = add_ask },
  [4] = { fixed = 80, add = add_report },
  [5] = { fixed = 80, add = add_close },
  [6] = { fixed = 24, add = add_fold },
  [7] = { fixed = 24, add = add_fold },
  [8] = { fixed = 36, add = add_hello },
  [9] = { fixed = 20, add = add_notice },
  [10] = { fixed = 40, add = add_handshake },
}

-- Port 8139 stands at the destination on the way down and at the source on the way up;
-- Wireshark looks for either.
function fan.dissector(buf, pinfo, root)
  if buf:len() == 0 then return 0 end
  pinfo.cols.protocol = "fanfold"
  local tree = root:add(fan, buf(), "fanfold")
  local kind = buf(0, 1):bitfield(4, 4)
  tree:add(f.version, buf(0, 1), buf(0, 1):bitfield(0, 4))
  tree:add(f.kind, buf(0, 1), kind)
  if buf(0, 1):bitfield(0, 4) ~= 1 then
    tree:add_proto_expert_info(fe.bad_version)
    return buf:len()
  end
  local message = messages[kind]
  if message == nil then
    tree:add_proto_expert_info(fe.bad_kind)
    return buf:len()
  end
  if buf:len() < message.fixed then
    tree:add_proto_expert_info(fe.truncated)
    return buf:len()
  end
  tree:append_text(" " .. kinds[kind])
  pinfo.cols.info = kinds[kind]
  local size = message.add(tree, buf)
  if buf:len() < size then tree:add_proto_expert_info(fe.truncated) end
  if buf:len() > size then tree:add_proto_expert_info(fe.trailing) end
  return buf:len()
end

DissectorTable.get("udp.port"):add(BIER_UDP_PORT, bier)
DissectorTable.get("ethertype"):add(BIER_ETHERTYPE, bier)
DissectorTable.get("udp.port"):add(FANFOLD_PORT, fan)
