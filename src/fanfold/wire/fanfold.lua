-- Wireshark dissector for BIER (RFC 8296, non-MPLS form) over UDP 8138 and Ethertype 0xAB37,
-- and for the fanfold messages inside. docs/wire/ has the layouts.
--
--   tshark -X lua_script:$(fanfold dissector) -r capture.pcapng
--
-- With the file that `--keylog` wrote, by -o fanfold_bier.keylog:FILE or FANFOLD_KEYLOG, it
-- checks trailers of links (docs/wire/link-keys.md) of up to 1,024 octets that they cover, and
-- opens the payload of sealed pushes.
--
-- Runs on Wireshark 4.0 and later. The names fanfold_bier and fanfold do not clash with
-- the "bier" protocol that Wireshark 4.4 has for the MPLS form.

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
local asks = { [0] = "status" }

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
  trailer = ProtoField.bytes("fanfold_bier.trailer", "Trailer of the link"),
  link_session = ProtoField.uint32("fanfold_bier.link_session", "Session", base.HEX),
  link_counter = ProtoField.uint64("fanfold_bier.link_counter", "Counter"),
  link_tag = ProtoField.bytes("fanfold_bier.link_tag", "Tag"),
  link_check = ProtoField.string("fanfold_bier.link_check", "Tag is"),
}
bier.fields = b
bier.prefs.keylog = Pref.string("Key log", "", "file that fanfold wrote with --keylog")

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

-- Keys of a key log, AES (FIPS 197), and what is made of it: UMAC with 96 bits (RFC 4418) of
-- one block, and the stream of AES-GCM (NIST SP 800-38D), whose tag is left alone.
local bxor = (bit32 or bit).bxor
local TRAILER_BYTES = 24
local COVERED_AT_MOST = 1024

local sbox, double = {}, {}
do
  local p, q = 1, 1
  local function rotate(x, n) return (x * 2 ^ n) % 256 + math.floor(x * 2 ^ n / 256) end
  repeat
    p = bxor(p, (p * 2) % 256, p >= 128 and 0x1B or 0)
    q = bxor(q, (q * 2) % 256)
    q = bxor(q, (q * 4) % 256)
    q = bxor(q, (q * 16) % 256)
    if q >= 128 then q = bxor(q, 0x09) end
    sbox[p] = bxor(q, rotate(q, 1), rotate(q, 2), rotate(q, 3), rotate(q, 4), 0x63)
  until p == 1
  sbox[0] = 0x63
  for x = 0, 255 do double[x] = bxor((x * 2) % 256, x >= 128 and 0x1B or 0) end
end

-- Round keys, octet by octet, of a key of 16 or 32 octets.
local function expand(key)
  local w, n = {}, #key
  for i = 1, n do w[i] = key[i] end
  local rcon, total = 1, 4 * n + 112
  for at = n, total - 4, 4 do
    local t = { w[at - 3], w[at - 2], w[at - 1], w[at] }
    if at % n == 0 then
      t = { bxor(sbox[t[2]], rcon), sbox[t[3]], sbox[t[4]], sbox[t[1]] }
      rcon = double[rcon]
    elseif n == 32 and at % n == 16 then
      for i = 1, 4 do t[i] = sbox[t[i]] end
    end
    for i = 1, 4 do w[at + i] = bxor(w[at + i - n], t[i]) end
  end
  w.rounds = n / 4 + 6
  return w
end

local function aes(w, block)
  local s = {}
  for i = 1, 16 do s[i] = bxor(block[i], w[i]) end
  for round = 1, w.rounds do
    local r = {}
    for c = 0, 3 do
      for i = 0, 3 do r[4 * c + i + 1] = sbox[s[(4 * c + 5 * i) % 16 + 1]] end
    end
    if round < w.rounds then
      for c = 1, 13, 4 do
        local a, x, y, z = r[c], r[c + 1], r[c + 2], r[c + 3]
        local all = bxor(a, x, y, z)
        r[c] = bxor(a, all, double[bxor(a, x)])
        r[c + 1] = bxor(x, all, double[bxor(x, y)])
        r[c + 2] = bxor(y, all, double[bxor(y, z)])
        r[c + 3] = bxor(z, all, double[bxor(z, a)])
      end
    end
    for i = 1, 16 do s[i] = bxor(r[i], w[16 * round + i]) end
  end
  return s
end

local function octets_of(number, n)
  local out = {}
  for i = n, 1, -1 do
    out[i] = number % 256
    number = math.floor(number / 256)
  end
  return out
end

local function joined(...)
  local out = {}
  for _, part in ipairs({ ... }) do
    for _, octet in ipairs(part) do out[#out + 1] = octet end
  end
  return out
end

local function number_of(octets, at, n)
  local number = 0
  for i = at, at + n - 1 do number = number * 256 + octets[i] end
  return number
end

local function from_hex(text)
  local out = {}
  for pair in text:gmatch("%x%x") do out[#out + 1] = tonumber(pair, 16) end
  return out
end

-- KDF of RFC 4418 section 3.2.1.
local function derive(w, index, n)
  local out = {}
  for i = 1, math.ceil(n / 16) do
    out = joined(out, aes(w, joined(octets_of(index, 8), octets_of(i, 8))))
  end
  return out
end

local P36 = UInt64.new(0xFFFFFFFB, 0xF)

local function umac_keys(key)
  local w = expand(key)
  local made = { first = {}, inner = {}, masks = {}, pad = expand(derive(w, 0, 16)) }
  local first = derive(w, 1, COVERED_AT_MOST + 32)
  for i = 1, #first, 4 do made.first[#made.first + 1] = number_of(first, i, 4) end
  local inner, masks = derive(w, 3, 192), derive(w, 4, 12)
  for t = 0, 2 do
    made.masks[t] = number_of(masks, 4 * t + 1, 4)
    for i = 0, 3 do
      local at = 64 * t + 33 + 8 * i
      local word = UInt64.new(number_of(inner, at + 4, 4), number_of(inner, at, 4))
      made.inner[4 * t + i] = (word % P36):tonumber()
    end
  end
  return made
end

-- Tag of the first n octets; size: of the whole packet, counter: eight octets.
local function tag_of(keys, octets, n, size, counter)
  local words = {}
  for at = 0, math.max(math.ceil(n / 32), 1) * 8 - 1 do
    local word = 0
    for i = 4, 1, -1 do
      local at_octet = 4 * at + i
      word = word * 256 + (at_octet <= n and octets[at_octet] or 0)
    end
    words[at] = word
  end
  local pad = aes(keys.pad, joined(counter, octets_of(size, 4), { 0, 0, 0, 0 }))
  local tag = {}
  for t = 0, 2 do
    local sum = UInt64.new(8 * n, 0)
    for at = 0, #words, 8 do
      for i = at, at + 3 do
        local x = (words[i] + keys.first[4 * t + i + 1]) % 2 ^ 32
        local y = (words[i + 4] + keys.first[4 * t + i + 5]) % 2 ^ 32
        sum = sum + UInt64.new(x, 0) * UInt64.new(y, 0)
      end
    end
    local high, low, y = sum:higher(), sum:lower(), 0
    local parts = { math.floor(high / 65536), high % 65536, math.floor(low / 65536),
      low % 65536 }
    for i = 0, 3 do y = (y + parts[i + 1] * keys.inner[4 * t + i]) % (2 ^ 36 - 5) end
    local word = octets_of(y % 2 ^ 32, 4)
    local mask = octets_of(keys.masks[t], 4)
    for i = 1, 4 do
      tag[4 * t + i] = bxor(word[i], mask[i], pad[4 * t + i])
    end
  end
  return tag
end

local log = { links = {}, pushes = {}, made = {} }

local function read_key_log()
  log = { links = {}, pushes = {}, made = {} }
  local path = bier.prefs.keylog ~= "" and bier.prefs.keylog or os.getenv("FANFOLD_KEYLOG")
  local file = path and io.open(path, "r")
  if not file then return end
  for line in file:lines() do
    local what, number, key = line:match("^FANFOLD_(%u+)_1 (%x+) (%x+)$")
    local known = what == "LINK" and log.links or what == "PUSH" and log.pushes
    if known then
      number = tonumber(number, 16)
      known[number] = known[number] or {}
      known[number][#known[number] + 1] = key
    end
  end
  file:close()
end

function bier.init() read_key_log() end

local function made_of(key, make)
  log.made[key] = log.made[key] or make(from_hex(key))
  return log.made[key]
end

local function octets_in(buf, n)
  local raw, out = buf:bytes(0, n), {}
  for i = 1, n do out[i] = raw:get_index(i - 1) end
  return out
end

-- Octets that a trailer covers: of a push's content the headers alone.
local function covered(buf, head)
  local n = buf:len() - TRAILER_BYTES
  if not head or n < head + 16 then return n end
  local is_data = buf(head, 1):uint() == 0x11
  local is_content = buf(head + 7, 1):uint() % 2 == 1
  return is_data and is_content and head + 16 or n
end

local function add_trailer(tree, buf, head)
  local at = buf:len() - TRAILER_BYTES
  local item = tree:add(b.trailer, buf(at, TRAILER_BYTES))
  item:add(b.link_session, buf(at, 4))
  item:add(b.link_counter, buf(at + 4, 8))
  item:add(b.link_tag, buf(at + 12, 12))
  local known, said = log.links[buf(at, 4):uint()], "not known: no key"
  local n = covered(buf, head)
  if known and n > COVERED_AT_MOST then
    said = "not checked: it covers more than 1,024 octets"
  elseif known then
    said = "bad"
    local octets, tag = octets_in(buf, n), octets_in(buf(at + 12, 12), 12)
    local counter = octets_in(buf(at + 4, 8), 8)
    for _, key in ipairs(known) do
      local found = tag_of(made_of(key, umac_keys), octets, n, at, counter)
      if number_of(found, 1, 6) == number_of(tag, 1, 6)
        and number_of(found, 7, 6) == number_of(tag, 7, 6) then said = "good" end
    end
  end
  item:add(b.link_check, said):set_generated()
end

-- The payload of a sealed push as it was: flow, block and PSN say where in the stream it is.
local function add_opened(tree, buf)
  local flow = buf(4, 4):uint()
  local known = log.pushes[flow - flow % 2]
  if not known or flow % 2 == 0 then return end
  local w = made_of(known[#known], expand)
  local n, at = buf:len() - 16, buf(3, 1):uint() * buf(14, 2):uint()
  if buf(3, 1):uint() + 1 == buf(2, 1):uint() then n = n - 16 end  -- the tag of the block
  if n <= 0 then return end
  local nonce = joined(octets_in(buf(4, 8), 8), { 0, 0, 0, 0 })
  local sealed, plain, stream, at_block = octets_in(buf(16, n), n), {}, nil, -1
  for i = 0, n - 1 do
    local number = math.floor((at + i) / 16)
    if number ~= at_block then
      at_block = number
      stream = aes(w, joined(nonce, octets_of(number + 2, 4)))
    end
    plain[i + 1] = string.format("%02x", bxor(sealed[i + 1], stream[(at + i) % 16 + 1]))
  end
  local opened = ByteArray.new(table.concat(plain)):tvb("Opened payload")
  tree:add(f.opened, opened()):set_generated()
end

-- Bytes of a message of neighbours behind its word, or nil.
local function link_bytes(buf)
  if buf:len() < 8 then return nil end
  local kind = buf(4, 1):bitfield(4, 4)
  if kind == 8 then return 36 end
  if kind == 9 and buf:len() >= 16 then
    return 20 + math.floor((buf(14, 2):uint() + 7) / 8)
  end
  if kind == 10 then
    local step = buf(5, 1):uint()
    return 40 + (step == 1 and 104 or step == 2 and 52 or 0)
  end
  return nil
end

-- What is said to the next node only: docs/wire/link.md section 1.
local LINK_WORD = 0x000001FF

function bier.dissector(buf, pinfo, root)
  if buf:len() >= 4 and buf(0, 4):uint() == LINK_WORD then
    local n = link_bytes(buf)
    if n and buf:len() == 4 + n + TRAILER_BYTES then
      fan.dissector(buf(4, n):tvb(), pinfo, root)
      add_trailer(root:add(bier, buf(4 + n), "Link with keys"), buf, nil)
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
      add_trailer(tree, buf, size + 28)
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
    add_opened(tree, buf)
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
  flags:add(f.partial, buf(1, 1))
  flags:add(f.spent, buf(1, 1))
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
