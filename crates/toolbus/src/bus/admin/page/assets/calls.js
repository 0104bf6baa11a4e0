// The calls: a filter, the bars, the table below them. While frozen, none of them changes. What
// passes a filter is asked of the bus, which alone knows what filters mean.

import * as detail from "./call.js"
import {common, keysOf} from "./keys.js"
import {get, isWatching, linkState, watch} from "./link.js"
import {MARKS, bytes, count, duration, nameOf, span, time, tone, words} from "./numbers.js"
import {WINDOWS, go, place} from "./place.js"
import {isCalm, onLooks} from "./plots.js"
import {advance, newest, now, onStore, store, takeOlder, timed} from "./store.js"
import {Timeline} from "./timeline.js"
import {$, arrange, button, empty, field, make, maybe, say, set, tableOf} from "./text.js"

const ROWS = 200
const PAGES = 4
const PAGE = 500
const AGAIN = 400

const rows = new Map()
const timeline = new Timeline()
const body = make("tbody")
const table = tableOf("calls", [make("span.unseen", "Mark"), "Tool", "Outcome", "Duration", "Began", "Front", "In", "Out"], body)
const ui = {}
let schedule
let drawn = {}
let drawnAt = 0
let grownAt = 0
let frozen
let pointer
let selected
// What the bus said of the filter: calls, or what is wrong with it.
let passed = {}
let reading = false

export function start(later) {
	schedule = later
	ui.filter = filterField()
	ui.wrong = wrongFilter()
	ui.window = make("span.window")
	ui.zoomOut = button("zoom-out", "−", () => zoom(1), {"aria-label": "Zoom out", title: "Zoom out (-)"})
	ui.zoomIn = button("zoom-in", "+", () => zoom(-1), {"aria-label": "Zoom in", title: "Zoom in (+)"})
	ui.freeze = button("freeze", "Freeze", freeze, {title: "Freeze (f)"})
	ui.values = button("values", "Watch values", () => {
		watch(!isWatching())
		look()
	})
	ui.waiting = make("span", {$waiting: true, hidden: true})
	const zooms = make("span.zoom", {role: "group", "aria-label": "Window"}, ui.zoomOut, ui.window, ui.zoomIn)
	$("calls-bar").append(ui.filter, make("div.tools-bar", zooms, ui.freeze, ui.values, ui.waiting), ui.wrong)
	ui.canvas = make("canvas", {role: "img"})
	ui.readout = make("p.readout", {"aria-hidden": "true"})
	ui.leftOut = make("p", {"$left-out": true})
	ui.list = make("div.scroll")
	set($("timeline"), {$timeline: true}).append(ui.canvas, ui.readout)
	$("calls-list").append(ui.leftOut, ui.list)
	ui.canvas.addEventListener("pointermove", point)
	ui.canvas.addEventListener("pointerleave", () => point())
	ui.canvas.addEventListener("click", ({offsetX, offsetY}) => open(timeline.at(offsetX, offsetY)?.n))
	onLooks(ui.canvas, look)
	const callOf = event => Number(event.target.closest("[data-call]")?.dataset.call)
	body.addEventListener("click", event => open(callOf(event)))
	body.addEventListener("focusin", event => choose(callOf(event), false))
	onStore((what, data) => {
		if (what === "snapshot" && !data.resumed) passed = {}
	})
	detail.start($("detail"), schedule, close)
	keysOf(
		"calls",
		common({next: () => step(1), previous: () => step(-1), open: () => open(selected), close, freeze, zoomIn: () => zoom(-1), zoomOut: () => zoom(1)})
	)
}

export function filterField() {
	const placeholder = "Filter: outcome:failure tool:git.log slower:500ms …"
	const one = field("input", {$filter: true, "aria-label": "Filter", placeholder, maxlength: 1024})
	let timer
	const tell = () => {
		clearTimeout(timer)
		go({filter: one.value.trim()})
	}
	one.addEventListener("input", () => {
		clearTimeout(timer)
		timer = setTimeout(tell, 120)
	})
	one.addEventListener("change", tell)
	one.addEventListener("keydown", event => event.key === "Enter" && tell())
	return one
}

export const wrongFilter = () => make("p", {"$filter-error": true, role: "alert", hidden: true})

export function fillFilter(field) {
	if (document.activeElement !== field && field.value.trim() !== place().filter) field.value = place().filter
}

export function arrive() {
	fillFilter(ui.filter)
	detail.open(Number(place().call))
	look()
}

function look() {
	drawn = {}
	drawnAt = 0
	schedule()
}

const seconds = () => Number(place().window) || 60
const current = () => (place().filter ? (passed.of === place().filter ? passed.calls : []) : newest())

// Draws what has changed. Gives when it should be drawn again though nothing is told.
export function show() {
	if (!store.state) return
	const at = frozen?.at ?? now()
	if (linkState() === "live") {
		advance(Math.floor(now() / 1000) - 1)
		read(now())
	}
	const calls = frozen?.calls ?? current()
	if (drawn.calls !== calls || drawn.told !== passed || drawn.frozen !== frozen) {
		drawn = {calls, told: passed, frozen}
		showBar()
		showRows(calls.slice(0, ROWS), at)
	}
	if (frozen) {
		const came = current().findIndex(call => call.n <= frozen.last)
		const some = came < 0 ? current().length : came
		say(set(ui.waiting, {$value: some}), `${count(some)} new`)
	} else grow(at)
	detail.show(frozen)
	return showTimeline(calls, at)
}

// Not more often than the picture moves by half a pixel, and not without need.
function showTimeline(calls, at) {
	const room = seconds() * 1000
	const step = isCalm() ? 1_000 : Math.max(33, room / (ui.canvas.clientWidth || 1) / 2)
	const since = performance.now() - drawnAt
	if (step <= since) {
		drawnAt = performance.now()
		const pointed = pointer && timeline.at(pointer.offsetX, pointer.offsetY)
		const {filter} = place()
		const kind = timeline.draw(ui.canvas, {
			calls,
			until: at,
			seconds: seconds(),
			key: filter,
			history: filter || frozen ? null : store.history,
			marked: [selected, pointed?.n]
		})
		set($("timeline"), {$window: seconds(), $drawn: kind})
		set(ui.canvas, {"aria-label": `${count(calls.filter(call => at - room <= call.endedAt).length)} calls in the last ${span(seconds())}`})
		ui.canvas.classList.toggle("pointed", Boolean(pointed))
		maybe(
			ui.readout,
			pointed && `${MARKS[pointed.outcome] ?? ""} ${nameOf(pointed)}  ${duration(pointed.duration ?? at - pointed.beganAt)}  ${time(pointed.began)}`
		)
	}
	if (frozen) return 1_000
	const moves = calls[0] && (store.running.size || at - calls[0].endedAt < room)
	return moves ? Math.max(0, step - since) : 1_000
}

function showBar() {
	const {allowed} = store.state.values
	const at = WINDOWS.indexOf(seconds())
	say(ui.window, span(seconds()))
	set(ui.zoomIn, {disabled: at === 0})
	set(ui.zoomOut, {disabled: at === WINDOWS.length - 1})
	set(ui.freeze, {"aria-pressed": String(Boolean(frozen))})
	const why = allowed ? "Keep arguments and answers of calls that begin from now on" : "[admin] page_values = false"
	set(ui.values, {"aria-pressed": String(isWatching()), disabled: !allowed, title: why})
	maybe(ui.wrong, passed.of === place().filter && passed.wrong)
	set(ui.filter, {"aria-invalid": ui.wrong.hidden ? null : "true"})
	maybe(set(ui.leftOut, {$value: store.leftOut}), store.leftOut && `${count(store.leftOut)} more calls were counted, and are not kept one by one.`)
}

function showRows(calls, at) {
	const there = new Set(calls.map(call => call.n))
	for (const n of rows.keys()) if (!there.has(n)) rows.delete(n)
	const children = calls.map(call => {
		if (!rows.has(call.n)) rows.set(call.n, rowOf(call.n))
		const row = rows.get(call.n)
		if (row.call !== call) fill(row, call, at)
		set(row.element, {"aria-current": String(call.n) === place().call ? "true" : null})
		return row.element
	})
	arrange(body, children)
	if (children.length) arrange(ui.list, [table])
	else if (!place().filter) arrange(ui.list, [empty("No calls yet", "They are seen here as soon as a client calls a tool by one of the fronts.")])
	else if (passed.wrong) arrange(ui.list, [empty("This is no filter")])
	else
		arrange(ui.list, [
			passed.of === place().filter ? empty("No call passes this filter", "Of those that are kept; the journal may have more.") : empty("Reading …")
		])
}

function rowOf(n) {
	const cell = (part, look = "") => make(`td${look}`, part && {$part: part})
	const row = {mark: cell("mark"), tool: button("open.plain", "", null, {$part: "tool"}), outcome: make("td.outcome")}
	Object.assign(row, {duration: cell("duration", ".num"), time: cell("time", ".num"), front: cell("front"), in: make("td.num"), out: make("td.num")})
	const {mark, tool, ...others} = row
	row.element = make("tr", {$call: n, tabindex: -1}, mark, make("td", tool), Object.values(others))
	return row
}

function fill(row, call, at) {
	row.call = call
	set(row.element, {$outcome: call.outcome, class: `is-${tone(call.outcome)}`})
	say(row.mark, MARKS[call.outcome] ?? "")
	say(row.tool, nameOf(call))
	say(row.outcome, words(call.reason ? `${call.outcome}, ${call.reason}` : call.outcome))
	say(set(row.time, {title: call.began, $value: call.began}), time(call.began))
	say(row.front, call.caller == null ? call.front : `${call.front} · ${call.caller}`)
	for (const side of ["in", "out"]) say(set(row[side], {$value: call.bytes[side]}), bytes(call.bytes[side]))
	fillDuration(row, at)
}

function fillDuration(row, at) {
	const took = row.call.duration ?? Math.max(0, Math.round(at - row.call.beganAt))
	say(set(row.duration, {$value: took}), duration(took))
}

// What still runs takes longer and longer; ten times a second is enough to see it.
function grow(at) {
	if (performance.now() - grownAt < 100) return
	grownAt = performance.now()
	for (const row of rows.values()) if (row.call.outcome === "running") fillDuration(row, at)
}

// Reads what is kept besides what the stream tells; with a filter, what passes it.
async function read(at) {
	const text = place().filter
	const isOld =
		passed.of !== text || (text && !passed.wrong && (passed.told !== store.told || /\b(since|slower):/.test(text)) && AGAIN < performance.now() - passed.at)
	if (reading || !isOld) return
	reading = true
	const {told} = store
	let next = {of: text, told, calls: []}
	try {
		for (let page = 0; page < PAGES; page += 1) {
			const last = next.calls.at(-1)
			if (text && last?.beganAt < at - seconds() * 1000) break
			const found = JSON.parse(await get("/api/calls", {filter: text, limit: PAGE, before: last?.n}))
			next.calls.push(...found.calls.map(timed))
			if (page === 0) store.leftOut = Math.max(store.leftOut, found.forgotten)
			if (!found.more) break
		}
		if (!text) takeOlder(next.calls)
	} catch (error) {
		// What is wrong is said, and not asked again until it is another.
		next = error.status ? {...next, calls: [], wrong: error.message} : {}
		if (!error.status) await new Promise(done => setTimeout(done, AGAIN))
	}
	next.at = performance.now()
	reading = false
	if (text === place().filter) passed = next
	schedule()
}

function freeze() {
	frozen = frozen ? null : {at: now(), calls: current(), last: current()[0]?.n ?? 0}
	set(ui.waiting, {hidden: !frozen})
	look()
}

function zoom(by) {
	const next = WINDOWS[WINDOWS.indexOf(seconds()) + by]
	if (next) go({window: String(next)})
}

function point(event) {
	pointer = event
	drawnAt = 0
	schedule()
}

function choose(n, moves = true) {
	if (!n) return
	selected = n
	const row = rows.get(n)?.element
	if (moves && row) {
		row.focus({preventScroll: true})
		row.scrollIntoView({block: "nearest"})
	}
	drawnAt = 0
	schedule()
}

function step(by) {
	const list = [...body.children].map(row => Number(row.dataset.call))
	const at = list.indexOf(selected)
	choose(list[at < 0 ? 0 : Math.max(0, Math.min(list.length - 1, at + by))])
	if (place().call) go({call: String(selected)})
}

function open(n) {
	if (!n) return false
	selected = n
	go({call: String(n)})
	detail.focus()
	return true
}

function close() {
	const n = Number(place().call)
	go({call: ""})
	choose(n)
}
