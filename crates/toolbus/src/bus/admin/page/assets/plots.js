// Pictures on canvas: sizes, colours, and the four plots of the last quarter of an hour. What is
// drawn is numbers alone; every picture says its latest numbers in words beside it.

import {bytes, duration, hour, short} from "./numbers.js"

const SECONDS = 900
const LEFT = 52
const TOP = 8
const FOOT = 18

let colours = new Map()
const redraws = new Set()
const calm = matchMedia("(prefers-reduced-motion: reduce)")
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
	colours = new Map()
	redraws.forEach(redraw => redraw())
})

// Has something drawn anew when colours or its size change.
export function onLooks(element, redraw) {
	redraws.add(redraw)
	new ResizeObserver(redraw).observe(element)
}

export const isCalm = () => calm.matches

export function colour(name) {
	if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim())
	return colours.get(name)
}

// A pen on a canvas that is as large as its element and measures in its pixels; nothing if it is not seen.
export function penOn(canvas) {
	const {clientWidth: width, clientHeight: height} = canvas
	if (!width || !height) return
	const ratio = Math.min(3, devicePixelRatio || 1)
	const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)]
	if (canvas.width !== across || canvas.height !== down) [canvas.width, canvas.height] = [across, down]
	const pen = canvas.getContext("2d")
	pen.setTransform(ratio, 0, 0, ratio, 0, 0)
	pen.clearRect(0, 0, width, height)
	pen.font = '11px system-ui, -apple-system, "Segoe UI", sans-serif'
	pen.textBaseline = "middle"
	return {pen, width, height}
}

export function line(pen, x1, y1, x2, y2, tint) {
	pen.strokeStyle = colour(tint)
	pen.lineWidth = 1
	pen.beginPath()
	pen.moveTo(x1, y1)
	pen.lineTo(x2, y2)
	pen.stroke()
}

export function write(pen, text, x, y, align) {
	pen.fillStyle = colour("muted")
	pen.textAlign = align
	pen.fillText(text, x, y)
}

const rate = value => (value < 10 && value % 1 ? value.toFixed(1) : short(value))

// Of each plot: what it shows of a bin of seconds, how that is drawn, and how it reads.
export const PLOTS = {
	calls: {
		title: "Calls",
		unit: "per second, failures below",
		of: bin => [bin.calls / bin.seconds, bin.failures / bin.seconds],
		label: rate,
		read: ([calls, failures]) => `${rate(calls)}/s · ${rate(failures)}/s failed`,
		draw(pen, [calls, failures], from, to, y, bottom) {
			// Even one call among thousands is seen, and one failure among the others.
			const high = calls ? Math.max(1.5, bottom - y(calls)) : 0
			const bad = failures ? Math.min(high, Math.max(2, bottom - y(failures))) : 0
			pen.fillStyle = colour("ok")
			pen.fillRect(from, bottom - high, to - from, high - bad)
			pen.fillStyle = colour("failed")
			pen.fillRect(from, bottom - bad, to - from, bad)
		}
	},
	latency: {
		title: "Latency",
		unit: "p50 and p99",
		isLog: true,
		of: bin => [bin.p50, bin.p99],
		label: ms => (ms < 1000 ? duration(ms).replace(/\.0+ /, " ") : `${ms / 1000} s`),
		read: ([p50, p99]) => (p50 == null ? "no call ended" : `p50 ${duration(p50)} · p99 ${duration(p99)}`),
		draw(pen, [p50, p99], from, to, y) {
			if (p50 == null) return
			pen.fillStyle = colour("accent")
			pen.globalAlpha = 0.25
			pen.fillRect(from, y(p99), to - from, y(p50) - y(p99))
			pen.globalAlpha = 1
			pen.fillRect(from, y(p50) - 1, to - from, 2)
			pen.fillStyle = colour("late")
			pen.fillRect(from, y(p99) - 1, to - from, 2)
		}
	},
	in_flight: {title: "In flight", unit: "at most", of: bin => [bin.in_flight], label: rate, read: ([value]) => short(value), draw: area("running")},
	memory: {
		title: "Memory",
		unit: "waiting for peers, at most",
		isBytes: true,
		of: bin => [bin.bytes_in_flight],
		label: value => bytes(value).replace(/\.0+ /, " "),
		read: ([value]) => bytes(value),
		draw: area("gone")
	}
}

function area(tint) {
	return (pen, [value], from, to, y, bottom) => {
		const high = y(value)
		pen.fillStyle = colour(tint)
		pen.globalAlpha = 0.25
		pen.fillRect(from, high, to - from + 1, bottom - high)
		pen.globalAlpha = 1
		pen.fillRect(from, high - 1, to - from + 1, 1.5)
	}
}

// The seconds of the history in bins that begin at whole multiples, so that they do not flicker.
function bins(history, size) {
	const found = []
	let weight = 0
	for (let index = 0; index < SECONDS; index += 1) {
		const at = Math.floor((history.until - SECONDS + 1 + index) / size) * size
		const of = series => history[series][index] ?? 0
		let bin = found.at(-1)
		if (bin?.at !== at) {
			found.push((bin = {at, seconds: 0, calls: 0, failures: 0, p50: null, p99: null, in_flight: 0, bytes_in_flight: 0}))
			weight = 0
		}
		bin.seconds += 1
		bin.calls += of("calls")
		bin.failures += of("failures")
		bin.in_flight = Math.max(bin.in_flight, of("in_flight"))
		bin.bytes_in_flight = Math.max(bin.bytes_in_flight, of("bytes_in_flight"))
		if (history.p50[index] == null) continue
		const calls = Math.max(1, of("calls"))
		bin.p50 = ((bin.p50 ?? 0) * weight + of("p50") * calls) / (weight + calls)
		bin.p99 = Math.max(bin.p99 ?? 0, of("p99"))
		weight += calls
	}
	return found
}

function axis(kind, values) {
	const there = values.flat().filter(value => 0 < value)
	if (kind.isLog) {
		const least = Math.floor(Math.log10(Math.min(...(there.length ? there : [1]))))
		const most = Math.max(least + 2, Math.ceil(Math.log10(Math.max(...there, 0.001))))
		const ticks = []
		for (let power = least; power <= most; power += most - least > 4 ? 2 : 1) ticks.push(10 ** power)
		return {ticks, part: value => Math.max(0, (Math.log10(Math.max(value, 1e-3)) - least) / (most - least))}
	}
	const most = Math.max(...there, 1)
	const size = 10 ** Math.floor(Math.log10(most))
	const top = kind.isBytes ? 2 ** Math.max(10, Math.ceil(Math.log2(most))) : [1, 2, 5, 10].find(step => most <= step * size) * size
	return {ticks: [0, top / 2, top], part: value => value / top}
}

// Draws a plot; `pointer` is where the mouse is, if it is there. Gives what is told of that place.
export function draw(canvas, name, history, pointer) {
	const on = penOn(canvas)
	if (!on) return
	const {pen, width, height} = on
	const kind = PLOTS[name]
	const [right, bottom] = [width - 4, height - FOOT]
	const size = width > 640 ? 5 : width > 320 ? 10 : 15
	const all = bins(history, size)
	const values = all.map(kind.of)
	const first = history.until - SECONDS + 1
	const x = second => LEFT + (Math.max(0, Math.min(SECONDS, second - first)) / SECONDS) * (right - LEFT)
	const {ticks, part} = axis(kind, values)
	const y = value => bottom - part(value) * (bottom - TOP)
	for (const tick of ticks) {
		const at = Math.round(y(tick)) + 0.5
		line(pen, LEFT, at, right, at, "rule")
		write(pen, kind.label(tick), LEFT - 8, at, "right")
	}
	write(pen, "15 min", LEFT, bottom + 11, "left")
	for (const ago of [10, 5]) write(pen, ago, x(first + SECONDS - ago * 60), bottom + 11, "center")
	write(pen, "now", right, bottom + 11, "right")
	all.forEach((bin, at) => kind.draw(pen, values[at], x(bin.at), Math.max(x(bin.at) + 1, x(bin.at + size) - 1), y, bottom))
	const found = pointer < LEFT ? -1 : all.findIndex(bin => x(bin.at) <= pointer && pointer < x(bin.at + size))
	if (found < 0) return
	const middle = Math.round(x(all[found].at + size / 2)) + 0.5
	line(pen, middle, TOP, middle, bottom, "muted")
	return `${hour(all[found].at * 1000)} · ${kind.read(values[found])}`
}
