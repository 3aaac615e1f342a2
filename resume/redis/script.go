package redis

import goredis "github.com/redis/go-redis/v9"

// now is a function of the scripts: Redis' time in milliseconds, which all replicas share.
const now = `
local function now()
	local t = redis.call('TIME')
	return t[1] * 1000 + math.floor(t[2] / 1000)
end
`

// tell is a function of the scripts: it tells a replica that something is new about a log.
const tell = `
local function tell(prefix, replica, id)
	local key = prefix .. 'replica:' .. replica
	local message = redis.call('XADD', key, 'MAXLEN', '~', 1000, '*', 'id', id)
	redis.call('PEXPIRE', key, 60000)
	return message
end
`

// lingers is how long what has gone stays for those who read it already, in milliseconds.
const lingers = "60000"

// Fields of a log: e entry, r owner, until its lease, s state, h header, n events, z bytes,
// c cancelled, x when it has been kept long enough, m the last message that its owner has got, w how
// many events that had then.

// claimScript makes a log, unless there is one with the key. It returns the id of that, or
// of the new one.
//
// KEYS: log, key. ARGV: prefix, id, entry, replica, lease, ttl, whether there is a key.
var claimScript = goredis.NewScript(now + `
if ARGV[7] == '1' then
	local id = redis.call('GET', KEYS[2])
	if id and (id == ARGV[2] or redis.call('EXISTS', ARGV[1] .. 'log:' .. id) == 1) then
		return id
	end
	redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[6])
end
redis.call('HSET', KEYS[1], 'e', ARGV[3], 'r', ARGV[4], 'until', now() + ARGV[5], 's', 'claimed', 'n', 0, 'z', 0)
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return ARGV[2]
`)

// lookScript returns the state of a log, or nothing: state, header, events, bytes, how
// much is left of the lease, whether it has gone, owner, entry, the id of its last piece, and
// the fields m and w.
//
// KEYS: log, events.
var lookScript = goredis.NewScript(now + `
local v = redis.call('HMGET', KEYS[1], 's', 'h', 'n', 'z', 'until', 'c', 'x', 'r', 'e', 'm', 'w')
if not v[9] then return false end
local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)
local gone = (v[6] or v[7] and v[7] + 0 <= now()) and 1 or 0
return {v[1], v[2] or '', v[3] + 0, v[4] + 0, v[5] - now(), gone, v[8], v[9], last[1] and last[1][1] or '0-0', v[10] or '0-0', (v[11] or 0) + 0}
`)

// Those that write return 1, or -1 if the log is another replica's, or was deleted.

// beginScript has a log begin.
//
// KEYS: log, events. ARGV: replica, header, ttl, id of the piece.
var beginScript = goredis.NewScript(`
local v = redis.call('HMGET', KEYS[1], 'r', 's')
if v[1] ~= ARGV[1] then return -1 end
if v[2] == 'claimed' then
	redis.call('HSET', KEYS[1], 's', 'begun', 'h', ARGV[2])
	redis.call('XADD', KEYS[2], ARGV[4], 'm', 'begun')
	redis.call('PEXPIRE', KEYS[2], ARGV[3])
end
return 1
`)

// appendScript appends a piece after the bytes that are said to be there, and deletes those
// before another piece.
//
// KEYS: log, events. ARGV: replica, bytes before, bytes and events then, id of the piece, where it
// is, ends, data, id of the first piece that stays, if others go.
var appendScript = goredis.NewScript(`
local v = redis.call('HMGET', KEYS[1], 'r', 's', 'z')
if v[1] ~= ARGV[1] or v[2] ~= 'begun' then return -1 end
if v[3] == ARGV[3] then return 1 end
if v[3] ~= ARGV[2] then return -1 end
redis.call('XADD', KEYS[2], ARGV[5], 'm', ARGV[6], 'e', ARGV[7], 'd', ARGV[8])
redis.call('HSET', KEYS[1], 'z', ARGV[3], 'n', ARGV[4])
if ARGV[9] ~= '' then redis.call('XTRIM', KEYS[2], 'MINID', ARGV[9]) end
return 1
`)

// endScript ends a log. Its readers have longer than those who come then.
//
// KEYS: log, events, readers, key. ARGV: replica, id, state, keep, id of the piece, bytes.
var endScript = goredis.NewScript(now + `
local v = redis.call('HMGET', KEYS[1], 'r', 's', 'z')
if v[1] ~= ARGV[1] then return -1 end
if v[2] == ARGV[3] then return 1 end
if v[2] ~= 'begun' or v[3] ~= ARGV[6] then return -1 end
redis.call('HSET', KEYS[1], 's', ARGV[3], 'x', now() + ARGV[4])
redis.call('XADD', KEYS[2], ARGV[5], 'm', ARGV[3])
for i = 1, 2 do redis.call('PEXPIRE', KEYS[i], ARGV[4] + ` + lingers + `) end
redis.call('DEL', KEYS[3])
if redis.call('GET', KEYS[4]) == ARGV[2] then redis.call('PEXPIRE', KEYS[4], ARGV[4]) end
return 1
`)

// dropScript has a log go that has not begun.
//
// KEYS: log, events, readers, key. ARGV: replica, id, id of the piece.
var dropScript = goredis.NewScript(`
local r = redis.call('HGET', KEYS[1], 'r')
if r and r ~= ARGV[1] then return -1 end
if redis.call('GET', KEYS[4]) == ARGV[2] then redis.call('DEL', KEYS[4]) end
if r then
	redis.call('DEL', KEYS[1], KEYS[3])
	redis.call('XADD', KEYS[2], ARGV[3], 'm', 'dropped')
	redis.call('PEXPIRE', KEYS[2], ` + lingers + `)
end
return 1
`)

// refreshScript extends the lease of a log. It returns whether the log is cancelled, and
// how many readers it has elsewhere; or -1.
//
// KEYS: log, events, readers, key. ARGV: replica, id, lease, ttl, the last message that told of the
// log or nothing, how many events there are.
var refreshScript = goredis.NewScript(now + `
local v = redis.call('HMGET', KEYS[1], 'r', 's', 'c')
if v[1] ~= ARGV[1] or v[2] ~= 'claimed' and v[2] ~= 'begun' then return {-1, 0} end
redis.call('HSET', KEYS[1], 'until', now() + ARGV[3])
if ARGV[5] ~= '' then redis.call('HSET', KEYS[1], 'm', ARGV[5], 'w', ARGV[6]) end
for i = 1, 3 do redis.call('PEXPIRE', KEYS[i], ARGV[4]) end
if redis.call('GET', KEYS[4]) == ARGV[2] then redis.call('PEXPIRE', KEYS[4], ARGV[4]) end
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now())
return {v[3] and 1 or 0, redis.call('ZCARD', KEYS[3])}
`)

// adoptScript takes over a log whose owner's lease is over. It returns its state, or
// nothing.
//
// KEYS: log. ARGV: replica, lease.
var adoptScript = goredis.NewScript(now + `
local v = redis.call('HMGET', KEYS[1], 's', 'until')
if v[1] ~= 'claimed' and v[1] ~= 'begun' or v[2] + 0 > now() then return false end
redis.call('HSET', KEYS[1], 'r', ARGV[1], 'until', now() + ARGV[2])
return v[1]
`)

// cancelScript has a log go, and tells its owner. It returns 0 if it has gone already.
//
// KEYS: log, events, key. ARGV: prefix, id.
var cancelScript = goredis.NewScript(tell + `
local v = redis.call('HMGET', KEYS[1], 's', 'r', 'c', 'e')
if not v[4] or v[3] then return 0 end
redis.call('HSET', KEYS[1], 'c', 1)
if redis.call('GET', KEYS[3]) == ARGV[2] then redis.call('DEL', KEYS[3]) end
if v[1] == 'claimed' or v[1] == 'begun' then
	tell(ARGV[1], v[2], ARGV[2])
else
	for i = 1, 2 do redis.call('PEXPIRE', KEYS[i], ` + lingers + `) end
end
return 1
`)

// readScript counts readers of a log for the time of a lease, and tells the owner if some are
// new. Those of one that has ended do not count.
//
// KEYS: log, readers. ARGV: prefix, id, lease, the readers.
var readScript = goredis.NewScript(now + tell + `
local v = redis.call('HMGET', KEYS[1], 'r', 's')
if v[2] ~= 'claimed' and v[2] ~= 'begun' then return 0 end
local new = 0
for i = 4, #ARGV do new = new + redis.call('ZADD', KEYS[2], now() + ARGV[3], ARGV[i]) end
redis.call('PEXPIRE', KEYS[2], ARGV[3] + ` + lingers + `)
if new > 0 then tell(ARGV[1], v[1], ARGV[2]) end
return 1
`)

// askScript has the owner of a log say how many events it has. It returns the id of the message.
//
// KEYS: log. ARGV: prefix, id.
var askScript = goredis.NewScript(tell + `
local r = redis.call('HGET', KEYS[1], 'r')
return r and tell(ARGV[1], r, ARGV[2])
`)

// leaveScript says that a reader is one no longer.
//
// KEYS: log, readers. ARGV: prefix, id, the reader.
var leaveScript = goredis.NewScript(tell + `
local r = redis.call('HGET', KEYS[1], 'r')
if redis.call('ZREM', KEYS[2], ARGV[3]) == 1 and r then tell(ARGV[1], r, ARGV[2]) end
return 1
`)
