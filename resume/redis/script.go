package redis

import (
	goredis "github.com/redis/go-redis/v9"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// name returns the name of a key in Redis of the log id. The kinds are log, events and readers.
func (s *Store) name(kind, id string) string { return s.nameIn(log.Place(id), kind) + id }

// nameIn returns the beginning of the names of all keys in Redis of a kind and a place. The braces
// mark the hash tag, by which a cluster keeps all keys of a place in one slot, and so on one node.
func (s *Store) nameIn(place, kind string) string { return s.o.Prefix + kind + ":{" + place + "}:" }

// newScript returns a script. The KEYS of every script are the log, its events and its readers. The
// log is a hash with the fields
//
//	e entry   k name of its key   r owner   until when the owner's lease ends   s state
//	h beginning  p pieces            n events  w writes
//	c cancelled                   x until when it is kept after its end
func newScript(text string) *goredis.Script {
	return goredis.NewScript(`
local function now() -- in milliseconds, the same for all replicas
	local t = redis.call('TIME')
	return t[1] * 1000 + math.floor(t[2] / 1000)
end
local function runs(state) return state == 'claimed' or state == 'begun' end
local lingers = 60000 -- how long a log that has gone stays for its readers, longer if they look
` + text)
}

// claimScript creates a log and returns its id. If the key has a log already, which the new one
// does not replace, it returns the id of that log instead.
//
// ARGV: the beginning of the names of logs, id, entry, replica, lease, ttl, name of the key,
// whether there is a key, whether the log takes it from another one.
var claimScript = newScript(`
if ARGV[8] == '1' then
	local id = redis.call('GET', ARGV[7])
	if id and (id == ARGV[2] or ARGV[9] == '0' and redis.call('EXISTS', ARGV[1] .. id) == 1) then return id end
	redis.call('SET', ARGV[7], ARGV[2], 'PX', ARGV[6])
end
redis.call('HSET', KEYS[1], 'e', ARGV[3], 'k', ARGV[7], 'r', ARGV[4], 'until', now() + ARGV[5],
	's', 'claimed', 'p', 0, 'n', 0, 'w', 0)
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return ARGV[2]
`)

// unclaimScript deletes a log that was claimed and has no run. If its key is still its own, another log
// gets that, unless it was deleted.
//
// ARGV: id, name of the key, id of the other log or "", its name, ttl.
var unclaimScript = newScript(`
redis.call('DEL', KEYS[1], KEYS[3])
if redis.call('GET', ARGV[2]) ~= ARGV[1] then return 0 end
if ARGV[3] ~= '' and not redis.call('HMGET', ARGV[4], 'c')[1] then
	redis.call('SET', ARGV[2], ARGV[3], 'PX', ARGV[5])
else
	redis.call('DEL', ARGV[2])
end
return 1
`)

// restoreScript recreates a log that Redis has lost, and sets its key unless that has another log.
// The log begins after the pieces that are not restored. It returns 1, or 0 if the log exists.
//
// ARGV: id, entry, replica, lease, ttl, name of the key, whether there is a key, how many pieces
// and events precede the log, writes, and the header, or "" if the log has not begun.
var restoreScript = newScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if ARGV[7] == '1' then redis.call('SET', ARGV[6], ARGV[1], 'PX', ARGV[5], 'NX') end
redis.call('DEL', KEYS[2])
redis.call('HSET', KEYS[1], 'e', ARGV[2], 'k', ARGV[6], 'r', ARGV[3], 'until', now() + ARGV[4],
	's', 'claimed', 'p', ARGV[8], 'n', ARGV[9], 'w', ARGV[10])
if ARGV[11] ~= '' then redis.call('HSET', KEYS[1], 's', 'begun', 'h', ARGV[11]) end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 1
`)

// lookScript returns the state of a log as a view in JSON, or nothing if there is no log. With a
// reader, it counts the reader for a lease, and adopts the log for the replica if the owner's lease
// is over. A log that is gone stays for the reader, which looks again within a lease.
//
// ARGV: the reader or "", lease, and the replica, or "" to adopt no log.
var lookScript = newScript(`
local v = redis.call('HMGET', KEYS[1], 's', 'h', 'p', 'n', 'w', 'until', 'c', 'x', 'e', 'o')
if not v[9] then return false end
local adopted, over = false, v[6] + 0 < now()
if ARGV[1] ~= '' and runs(v[1]) then
	redis.call('ZADD', KEYS[3], now() + ARGV[2], ARGV[1])
	redis.call('PEXPIRE', KEYS[3], ARGV[2] + lingers)
	if over and ARGV[3] ~= '' then
		redis.call('HSET', KEYS[1], 'r', ARGV[3], 'until', now() + ARGV[2], 'o', 1)
		adopted = true
	end
end
local gone = (v[7] or v[8] and v[8] + 0 <= now()) and true or false
if gone and ARGV[1] ~= '' and not runs(v[1]) then
	for i = 1, 2 do redis.call('PEXPIRE', KEYS[i], ARGV[2] + lingers) end
end
return '{"state":"' .. v[1] .. '","begun":' .. (v[2] or 'null') .. ',"pieces":' .. v[3] .. ',"events":' .. v[4]
	.. ',"writes":' .. v[5] .. ',"lapsed":' .. tostring(over and runs(v[1])) .. ',"gone":' .. tostring(gone) .. ',"adopted":' .. tostring(adopted)
	.. ',"orphan":' .. tostring(adopted or v[10] and true or false) .. ',"entry":' .. v[9] .. '}'
`)

// writeScript appends pieces to a log, which may begin or end it, and extends its lease. It may run
// again with the same arguments. It returns whether the log is cancelled, and how many readers it
// has in other replicas. Instead it returns -1 if the log is another replica's or was deleted, -2
// if Redis has lost it, and -3 and how many pieces Redis has if it has lost the last ones.
//
// ARGV: id, replica, lease, ttl, pieces before and after, events after, id of the first piece that
// stays or "", keep of the log and of its key; and of each piece its id, kind and data.
var writeScript = newScript(`
local v = redis.call('HMGET', KEYS[1], 'r', 's', 'p', 'k', 'c', 'w')
local ending, key = ARGV[#ARGV - 1] == 's' and ARGV[#ARGV], v[4]
if not v[2] then return {-2, 0} end
local pieces = tonumber(v[3])
if v[1] ~= ARGV[2] or not pieces then return {-1, 0} end
if pieces < ARGV[5] + 0 then return {-3, pieces} end
if not runs(v[2]) then return {(v[2] == ending or not ending and v[3] == ARGV[5]) and 0 or -1, 0} end
if v[3] == ARGV[5] then
	for i = 11, #ARGV, 3 do
		local kind, data = ARGV[i + 1], ARGV[i + 2]
		if kind == 'h' then
			redis.call('HSET', KEYS[1], 's', 'begun', 'h', data)
			data = ''
		end
		redis.call('XADD', KEYS[2], ARGV[i], kind, data)
	end
	if ARGV[8] ~= '' then redis.call('XTRIM', KEYS[2], 'MINID', ARGV[8]) end
elseif v[3] ~= ARGV[6] or ending then
	return {-1, 0}
end
redis.call('HSET', KEYS[1], 'p', ARGV[6], 'n', ARGV[7], 'w', v[6] + 1, 'until', now() + ARGV[3])
local has = redis.call('GET', key) == ARGV[1]
if not ending then
	for i = 1, 3 do redis.call('PEXPIRE', KEYS[i], ARGV[4]) end
	if has then redis.call('PEXPIRE', key, ARGV[4]) end
	redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now())
	return {v[5] and 1 or 0, redis.call('ZCARD', KEYS[3])}
end
redis.call('DEL', KEYS[3])
if ending == 'dropped' then
	if has then redis.call('DEL', key) end
	redis.call('DEL', KEYS[1])
	redis.call('PEXPIRE', KEYS[2], lingers)
else
	redis.call('HSET', KEYS[1], 's', ending, 'x', now() + ARGV[9])
	for i = 1, 2 do redis.call('PEXPIRE', KEYS[i], ARGV[9] + lingers) end
	if has then redis.call('PEXPIRE', key, ARGV[10]) end
end
return {0, 0}
`)

// deleteScript marks a log as deleted, which its owner will notice, and frees its key. It returns
// 1, or 0 if there is no log or it is deleted already.
//
// ARGV: id.
var deleteScript = newScript(`
local v = redis.call('HMGET', KEYS[1], 's', 'c', 'k')
if not v[1] or v[2] then return 0 end
redis.call('HSET', KEYS[1], 'c', 1)
if redis.call('GET', v[3]) == ARGV[1] then redis.call('DEL', v[3]) end
if not runs(v[1]) then
	for i = 1, 2 do redis.call('PEXPIRE', KEYS[i], lingers) end
end
return 1
`)
