// What the page knows: the state of the bus, the calls it was told of, the seconds of the last
// quarter of an hour. Filled by the events of the link, read by the views.

const CALLS_MAX = 6_000
const SECONDS = 900
const SERIES = ["calls", "failures", "p50", "p99", "in_flight", "bytes_in_flight"]

const listeners = new Set()
let boot = ""
let skew = 0
let sorted = {of: -1}

export const store = {
	state: null,
	calls: new Map(),
	running: new Set(),
	// The last second of each series is that of `until`.
	history: {until: 0},
	// Ended calls that were counted and not told, as far as this page heard of it.
	leftOut: 0,
	// Grows with the records that were told, so that views know whether there is something new.
	told: 0
}

export const onStore = listener => listeners.add(listener)

export const now = () => Date.now() + skew

export function newest() {
	if (sorted.of !== store.told) sorted = {of: store.told, list: [...store.calls.values()].sort((one, other) => other.n - one.n)}
	return sorted.list
}

export function take(name, data) {
	if (name === "snapshot") snapshot(data)
	else if (name === "tick") tick(data)
	else if (name === "peers") Object.assign(store.state, data)
	else if (name === "tools") store.state.tools = data
	listeners.forEach(listener => listener(name, data))
}

// Takes calls that were read besides, which are older than what the stream tells.
export function takeOlder(calls) {
	for (const call of calls) if (!store.calls.has(call.n)) put(call)
	trim()
}

export function timed(call) {
	call.beganAt = Date.parse(call.began)
	call.endedAt = call.outcome === "running" ? Infinity : call.time ? Date.parse(call.time) : call.beganAt + (call.duration ?? 0)
	return call
}

function snapshot(data) {
	const isOther = boot !== data.state.boot
	boot = data.state.boot
	skew = Date.parse(data.state.now) - Date.now()
	// What is not told now may have ended unheard; the calls view reads it again.
	if (isOther || !data.resumed) {
		store.calls.clear()
		store.running.clear()
		store.told += 1
	}
	if (isOther) store.leftOut = 0
	store.state = data.state
	for (const series of SERIES) store.history[series] = data.history[series].slice(-SECONDS)
	store.history.until = Math.floor(Date.parse(data.history.from) / 1000) + data.history.calls.length - 1
	data.calls.forEach(put)
}

function tick(data) {
	// The answer that was quickest on its way knows best.
	skew = Math.max(skew, Date.parse(data.now) - Date.now())
	store.state.counts = data.counts
	Object.assign(store.state.memory, data.memory)
	store.leftOut += data.left_out
	data.calls.forEach(put)
	trim()
	const {history} = store
	for (const second of data.seconds) {
		const at = Math.floor(Date.parse(second.at) / 1000)
		advance(at)
		const index = SECONDS - 1 - (history.until - at)
		if (0 <= index) for (const series of SERIES) history[series][index] = second[series] ?? null
	}
}

// Moves the history on to a second; in those between nothing ended, and what ran still runs.
export function advance(second) {
	const {history, state} = store
	const by = Math.min(SECONDS, second - history.until)
	if (by <= 0) return
	const still = [0, 0, null, null, state.counts.in_flight, state.memory.bytes_in_flight]
	SERIES.forEach((series, at) => history[series].splice(0, by) && history[series].push(...new Array(by).fill(still[at])))
	history.until = second
}

function put(call) {
	store.calls.set(call.n, timed(call))
	store.running[call.outcome === "running" ? "add" : "delete"](call.n)
	store.told += 1
}

// The oldest go; those that run stay, for their end will be told.
function trim() {
	if (store.calls.size <= CALLS_MAX * 1.2) return
	for (const call of newest().slice(CALLS_MAX)) if (call.outcome !== "running") store.calls.delete(call.n)
	store.told += 1
}

export const ended = seconds => store.history.calls.slice(-seconds).reduce((sum, calls) => sum + (calls ?? 0), 0)
