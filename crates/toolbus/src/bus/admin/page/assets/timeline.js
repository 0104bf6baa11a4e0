// The calls as bars on a time axis: where each of them lies, and what the picture shows. A call
// takes the lowest lane that is free when it begins, and stays there.

import {MARKS, count, hour, span, tone} from "./numbers.js"
import {colour, line, penOn, write} from "./plots.js"
import {ended} from "./store.js"

const BARS_MAX = 2_000
const FOOT = 20
const TOP = 4
const LANE_MAX = 18
const LANE_MIN = 3
const TICKS = {10: 2, 30: 5, 60: 10, 300: 60, 900: 180}

export class Timeline {
	// What the lanes were given out for: another filter or window begins anew.
	#key = ""
	#lanes = new Map()
	#drawn = []

	// Draws the calls, newest first, that were there in the last `seconds` before `until`. `history`
	// has exact counts where every call is wanted, for then those that were told may be fewer.
	draw(canvas, {calls, until, seconds, key, history, marked}) {
		const on = penOn(canvas)
		if (!on) return
		const {pen, width, height} = on
		const bottom = height - FOOT
		const from = until - seconds * 1000
		const x = at => ((at - from) / (seconds * 1000)) * width
		const step = TICKS[seconds] * (width < 460 ? 2 : 1)
		for (let at = Math.ceil(from / 1000 / step) * step; at * 1000 <= until; at += step) {
			const to = Math.round(x(at * 1000)) + 0.5
			line(pen, to, 0, to, bottom, "rule")
			if (30 < to && to < width - 30) write(pen, hour(at * 1000), to, bottom + 11, "center")
		}
		line(pen, 0, bottom + 0.5, width, bottom + 0.5, "rule")
		const seen = calls.filter(call => from <= call.endedAt && call.beganAt <= until)
		this.#drawn = []
		if (BARS_MAX < Math.max(seen.length, history ? ended(seconds) : 0)) {
			columns(pen, {seen, seconds, width, bottom, history, x})
			return "columns"
		}
		this.#place(seen, `${key} ${seconds} ${Math.round(width / 50)}`, (seconds * 1000) / width)
		this.#bars(pen, {seen, until, x, width, room: bottom - 2 * TOP, marked})
		return "bars"
	}

	at(x, y) {
		const away = bar => Math.max(bar.left - x, x - bar.right, 0)
		const near = this.#drawn.filter(bar => bar.top - 1 <= y && y <= bar.top + bar.high + 1 && away(bar) < 9)
		return near.sort((one, other) => away(one) - away(other))[0]?.call
	}

	#bars(pen, {seen, until, x, width, room, marked}) {
		const used = Math.max(1, ...seen.map(call => this.#lanes.get(call.n) + 1))
		const lane = Math.max(LANE_MIN, Math.min(LANE_MAX, room / used))
		const high = Math.max(2, lane - (lane > 6 ? 4 : 1))
		const lanes = Math.max(1, Math.floor(room / lane))
		// Oldest first, so that what is new lies above where lanes are not enough.
		for (const call of [...seen].reverse()) {
			const left = Math.max(x(call.beganAt), -2)
			const right = Math.max(x(Math.min(call.endedAt, until)), left + 2)
			const top = TOP + (this.#lanes.get(call.n) % lanes) * lane
			this.#drawn.push({call, left, right, top, high})
			pen.fillStyle = colour(tone(call.outcome))
			pen.beginPath()
			pen.roundRect(left, top, right - left, high, Math.min(2, high / 2, (right - left) / 2))
			pen.fill()
			if (marked.includes(call.n)) {
				pen.strokeStyle = colour("text")
				pen.lineWidth = 1.5
				pen.strokeRect(left - 1.5, top - 1.5, right - left + 3, high + 3)
			}
			if (call.outcome === "ok" || high < 5) continue
			pen.fillStyle = colour("text")
			pen.textAlign = "left"
			// What runs touches the end of the picture: its mark is in it.
			const at = call.outcome === "running" ? Math.max(left + 3, right - 14) : right + 4
			pen.fillText(MARKS[call.outcome] ?? "", at, top + high / 2 + 0.5)
		}
	}

	#place(seen, key, msPerPixel) {
		if (this.#key !== key || 4 * BARS_MAX < this.#lanes.size) this.#lanes.clear()
		this.#key = key
		const ends = []
		for (const call of [...seen].reverse()) {
			let lane = this.#lanes.get(call.n)
			if (lane == null) {
				lane = ends.findIndex(end => !(call.beganAt < end))
				if (lane < 0) lane = ends.length
				this.#lanes.set(call.n, lane)
			}
			// A bar is never smaller than two pixels, and a mark stands behind some.
			const room = call.outcome === "ok" ? 4 : 18
			ends[lane] = Math.max(ends[lane] ?? 0, Math.max(call.endedAt, call.beganAt + 2 * msPerPixel) + room * msPerPixel)
		}
	}
}

// Too many for bars: how many ended in each second or so, failures below.
function columns(pen, {seen, seconds, width, bottom, history, x}) {
	const size = Math.max(1, Math.ceil((seconds * 4) / width))
	const counts = new Map()
	const add = (second, calls, failures) => {
		const at = Math.floor(second / size) * size
		const [some, bad] = counts.get(at) ?? [0, 0]
		counts.set(at, [some + calls, bad + failures])
	}
	if (history)
		history.calls
			.slice(-seconds - 1)
			.forEach((calls, at, all) => add(history.until - all.length + 1 + at, calls ?? 0, history.failures.at(at - all.length) ?? 0))
	else for (const call of seen) if (call.outcome !== "running") add(call.endedAt / 1000, 1, call.outcome === "ok" ? 0 : 1)
	const most = Math.max(1, ...[...counts.values()].map(([calls]) => calls))
	for (const [at, [calls, failures]] of counts) {
		const high = some => (some ? Math.max(2, (some / most) * (bottom - 4 * TOP)) : 0)
		const wide = Math.max(1, (size / seconds) * width - 1)
		pen.fillStyle = colour("ok")
		pen.fillRect(x(at * 1000), bottom - high(calls), wide, high(calls))
		pen.fillStyle = colour("failed")
		pen.fillRect(x(at * 1000), bottom - high(failures), wide, high(failures))
	}
	write(pen, `${count(most)} in ${span(size)}`, 6, 10, "left")
}
