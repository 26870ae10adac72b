-- Trailers of links with keys, and key logs, for fanfold.lua beside it, which loads this file.
--
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

local fields = {
  trailer = ProtoField.bytes("fanfold_bier.trailer", "Trailer of the link"),
  link_session = ProtoField.uint32("fanfold_bier.link_session", "Session", base.HEX),
  link_counter = ProtoField.uint64("fanfold_bier.link_counter", "Counter"),
  link_tag = ProtoField.bytes("fanfold_bier.link_tag", "Tag"),
  link_check = ProtoField.string("fanfold_bier.link_check", "Tag is"),
}

local log = { links = {}, pushes = {}, made = {} }

local function read_key_log(named)
  log = { links = {}, pushes = {}, made = {} }
  local path = named ~= "" and named or os.getenv("FANFOLD_KEYLOG")
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
  local item = tree:add(fields.trailer, buf(at, TRAILER_BYTES))
  item:add(fields.link_session, buf(at, 4))
  item:add(fields.link_counter, buf(at + 4, 8))
  item:add(fields.link_tag, buf(at + 12, 12))
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
  item:add(fields.link_check, said):set_generated()
end

-- The payload of a sealed push as it was: flow, block and PSN say where in the stream it is.
local function add_opened(tree, buf, field)
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
  tree:add(field, opened()):set_generated()
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

-- Fields and the preference of a protocol; the key log is read when a capture is opened.
local function add_fields(proto, own)
  for name, field in pairs(fields) do own[name] = field end
  proto.prefs.keylog = Pref.string("Key log", "", "file that fanfold wrote with --keylog")
  function proto.init() read_key_log(proto.prefs.keylog) end
end

return { TRAILER_BYTES = TRAILER_BYTES, add_fields = add_fields, add_trailer = add_trailer,
  add_opened = add_opened, link_bytes = link_bytes }
