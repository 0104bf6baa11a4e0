// The first view: the numbers of the bus, their plots, its backs and fronts, the tools most called.

import {get, linkState} from "./link.js"
import {bytes, count, duration, nameOf, percent, quoted, short, some} from "./numbers.js"
import {go} from "./place.js"
import {PLOTS, draw, onLooks} from "./plots.js"
import {advance, ended, now, onStore, store} from "./store.js"
import {$, arrange, button, empty, make, maybe, say, set, tableOf} from "./text.js"

const AGAIN = 2_000
const STATES = {
	sign_in: "◆ needs sign-in",
	down: "✕ down",
	starting: "◌ starting",
	changed: "▲ changed",
	idle: "○ idle",
	ready: "● ready",
	listening: "● listening"
}
const NUMBERS = {calls: "Calls", failures: "Failures", p50: "p50, last minute", p99: "p99, last minute", in_flight: "In flight", memory: "Memory"}

const numbers = {}
const plots = {}
const rows = {backs: new Map(), fronts: new Map(), stats: new Map()}
const body = make("tbody")
const table = tableOf("stats", ["Tool", "Calls", "Failed", "p50", "p99"], body)
let minute = {}
let asked = 0
let askedFor = ""
let drawn

export function start(schedule) {
	const again = () => {
		drawn = null
		schedule()
	}
	for (const [name, label] of Object.entries(NUMBERS)) {
		const [value, note] = (numbers[name] = [make("span.value", {$number: name}, "–"), make("span.note")])
		$("numbers").append(make("div.number", make("span.label", label), value, note))
	}
	for (const [name, kind] of Object.entries(PLOTS)) {
		const plot = (plots[name] = {canvas: make("canvas", {$plot: name, role: "img"}), read: make("span.read")})
		for (const event of ["pointermove", "pointerleave"]) {
			plot.canvas.addEventListener(event, ({offsetX}) => {
				plot.pointer = event === "pointermove" ? offsetX : undefined
				again()
			})
		}
		onLooks(plot.canvas, again)
		$("plots").append(make("div.plot", make("div.plot-head", make("h3", kind.title), plot.read), plot.canvas))
	}
	onStore((what, data) => {
		if (what === "tick") return
		drawn = null
		if (what !== "snapshot") return
		minute = data.state.last_minute
		askedFor = ""
		asked = 0
	})
}

export function show() {
	if (!store.state) return
	// The second that runs is not over: the last whole one is drawn.
	if (linkState() === "live") advance(Math.floor(now() / 1000) - 1)
	ask()
	showNumbers()
	const key = `${store.history.until} ${store.told}`
	if (drawn === key) return 1_000
	const isNew = !drawn
	drawn = key
	for (const name of Object.keys(PLOTS)) showPlot(name, plots[name])
	if (isNew) for (const kind of ["backs", "fronts"]) showPeers(kind)
	return 1_000 - (now() % 1_000)
}

function showNumbers() {
	const {counts, memory} = store.state
	number("calls", counts.calls, count(counts.calls), `${count(ended(60))} in the last minute`)
	number("failures", counts.failures, count(counts.failures), `${percent(counts.failures, counts.calls)} of all`)
	set(numbers.failures[0], {$some: counts.failures > 0})
	number("p50", minute.p50, duration(minute.p50), "half are quicker")
	number("p99", minute.p99, duration(minute.p99), "1 in 100 is slower")
	number("in_flight", counts.in_flight, count(counts.in_flight), "calls that run now")
	number("memory", memory.bytes_in_flight, bytes(memory.bytes_in_flight), `of ${bytes(memory.bytes_in_flight_max)}`)
	set(numbers.memory[1], {title: memory.resident && `${bytes(memory.resident)} resident in all`})
}

function number(name, value, text, note) {
	say(set(numbers[name][0], {$value: value}), text)
	say(numbers[name][1], note)
}

function showPlot(name, plot) {
	const {title, unit, of, read} = PLOTS[name]
	say(plot.read, draw(plot.canvas, name, store.history, plot.pointer) ?? unit)
	const last = Object.fromEntries(Object.keys(store.history).map(series => [series, store.history[series].at?.(-1)]))
	set(plot.canvas, {"aria-label": `${title}, ${unit}, of the last 15 minutes; now ${read(of({...last, seconds: 1}))}`})
}

// What the stream does not tell is asked for, while calls come and a minute after.
async function ask() {
	const {calls, in_flight: runs} = store.state.counts
	const key = `${calls} ${runs}`
	if (linkState() !== "live" || Date.now() - asked < AGAIN || (askedFor === key && !minute.calls)) return
	asked = Date.now()
	askedFor = key
	try {
		const [state, stats] = (await Promise.all([get("/api/state"), get("/api/stats")])).map(text => JSON.parse(text))
		minute = state.last_minute
		store.state.memory.resident = state.memory.resident
		Object.assign(store.state, {backs: state.backs, fronts: state.fronts})
		for (const kind of ["backs", "fronts"]) showPeers(kind)
		showStats(stats.tools.slice(0, 20))
	} catch {
		// The link says what is wrong with it.
		askedFor = ""
	}
}

function keyed(there, list, key, makeRow) {
	const names = list.map(key)
	for (const name of there.keys()) if (!names.includes(name)) there.delete(name)
	return list.map((one, at) => {
		if (!there.has(names[at])) there.set(names[at], makeRow(names[at]))
		return [there.get(names[at]), one]
	})
}

function showPeers(kind) {
	const found = keyed(
		rows[kind],
		store.state[kind],
		peer => peer.name,
		name => peerRow(kind, name)
	)
	found.forEach(([row, peer]) => fillPeer(row, peer))
	arrange($(kind), found.length ? found.map(([row]) => row.element) : [empty(`The config names no ${kind.slice(0, -1)}`)])
}

const callsOf = (name, filter) =>
	say(
		button("calls-of.plain", "", () => go({view: "calls", filter, call: ""}), {title: "Its calls"}),
		name
	)

function peerRow(kind, name) {
	const one = kind.slice(0, -1)
	const part = (what, name, more) => make(what, {$part: name, ...more})
	const row = {
		state: part("span.state", "state"),
		wire: make("span.badge"),
		restarts: part("span", "restarts"),
		tools: button("tools-of.plain", "", () => go({view: "tools", back: name, search: "", tool: ""}), {$part: "tools", title: "Its tools"}),
		counts: make("span.peer-counts"),
		address: make("p.peer-address"),
		why: part("p", "why"),
		hint: part("code", "hint"),
		stderr: part("pre", "stderr", {tabindex: 0, "aria-label": "The end of its standard error"})
	}
	const {address, why, hint, stderr, ...top} = row
	const who = callsOf(name, `${one}:${quoted(name)}`)
	row.element = make(
		"div.peer",
		{[`$${one}`]: name},
		make("div.peer-line", top.state, who, top.wire, top.restarts, top.tools, top.counts),
		address,
		why,
		hint,
		stderr
	)
	return row
}

function fillPeer(row, peer) {
	set(row.element, {$state: peer.state})
	say(row.state, STATES[peer.state] ?? peer.state)
	say(row.wire, peer.wire)
	say(row.address, peer.address)
	maybe(row.why, peer.why)
	maybe(set(row.tools, {$value: peer.tools}), peer.tools == null ? "" : some(peer.tools, "tool"))
	const bad = peer.failures ? ` · ${short(peer.failures)} failed` : ""
	say(row.counts, `${some(peer.calls, "call")}${bad}${peer.in_flight ? ` · ${short(peer.in_flight)} in flight` : ""}`)
	maybe(set(row.restarts, {$value: peer.restarts}), peer.restarts && some(peer.restarts, "restart"))
	maybe(row.hint, {sign_in: `toolbus login ${peer.name}`, changed: `toolbus lock diff ${peer.name}`}[peer.state])
	maybe(row.stderr, peer.stderr?.join("\n"))
}

function statRow(name) {
	const bar = make("span.share", {"aria-hidden": "true"})
	const cells = Array.from("1234", () => make("td.num"))
	return {element: make("tr", {$stat: name}, make("td", callsOf(name, `tool:${quoted(name)}`), bar), cells), cells, bar}
}

function showStats(tools) {
	const most = Math.max(1, ...tools.map(tool => tool.count))
	const found = keyed(rows.stats, tools, nameOf, statRow)
	for (const [{bar, cells}, tool] of found) {
		// Numbers of ours, never a text of the bus.
		bar.style.setProperty("--share", String(tool.count / most))
		bar.style.setProperty("--bad", String(tool.failures / Math.max(1, tool.count)))
		say(set(cells[0], {$value: tool.count}), count(tool.count))
		say(set(cells[1], {$value: tool.failures, $some: tool.failures > 0}), count(tool.failures))
		say(cells[2], duration(tool.p50))
		say(cells[3], duration(tool.p99))
	}
	arrange(
		body,
		found.map(([row]) => row.element)
	)
	arrange($("stats"), [found.length ? table : empty("No calls yet", "A call by one of the fronts, or by the form of a tool, is seen here at once.")])
}
