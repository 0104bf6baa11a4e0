// Numbers, times and outcomes as people read them.

const clock = new Intl.DateTimeFormat("en-GB", {hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23"})
const day = new Intl.DateTimeFormat("en-GB", {day: "2-digit", month: "short"})

export const MARKS = {
	running: "…",
	ok: "✓",
	failed: "✕",
	timed_out: "◷",
	cancelled: "⊘",
	gone: "†",
	unavailable: "⌀",
	unknown_tool: "?",
	invalid_arguments: "!",
	broke_protocol: "≠",
	too_large: "▣"
}
const TONES = {ok: "ok", running: "running", cancelled: "cancelled", timed_out: "late", gone: "gone", unavailable: "gone"}

export const tone = outcome => (Object.hasOwn(TONES, outcome) ? TONES[outcome] : "failed")

export const words = outcome => String(outcome).replaceAll("_", " ")
export const marked = outcome => `${MARKS[outcome] ?? "✕"} ${words(outcome)}`

export const nameOf = call => (call.back == null ? call.tool : `${call.back}.${call.tool}`)

export const quoted = value => (/[\s:"]/.test(value) ? `"${value}"` : value)

export const count = number => Math.round(number).toLocaleString("en")
export const some = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`

// 1,204 or 12.3k: what fits into a column.
export function short(number) {
	if (number < 10_000) return count(number)
	return number < 1e6 ? `${digits(number / 1e3)}k` : `${digits(number / 1e6)}M`
}

const digits = number => number.toFixed(number < 10 ? 2 : number < 100 ? 1 : 0)

// Milliseconds: 105 µs, 82.4 ms, 1.21 s, 2 min 5 s.
export function duration(ms) {
	if (!Number.isFinite(ms)) return "–"
	if (ms < 0.9995) return `${Math.max(0, Math.round(ms * 1000))} µs`
	if (ms < 999.5) return `${digits(ms)} ms`
	if (ms < 59_950) return `${digits(ms / 1000)} s`
	const seconds = Math.round(ms / 1000)
	return seconds < 3600 ? `${Math.floor(seconds / 60)} min ${seconds % 60} s` : `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`
}

export function bytes(number) {
	const unit = Math.min(3, Math.floor(Math.log2(Math.max(1, number)) / 10))
	return unit < 1 ? `${number} B` : `${digits(number / 1024 ** unit)} ${["KiB", "MiB", "GiB"][unit - 1]}`
}

export function time(text) {
	const at = new Date(text)
	const isToday = at.toDateString() === new Date().toDateString()
	return `${isToday ? "" : `${day.format(at)} `}${clock.format(at)}.${String(at.getMilliseconds()).padStart(3, "0")}`
}

export const hour = ms => clock.format(new Date(ms))

export function percent(part, whole) {
	const value = (100 * part) / (whole || 1)
	return `${value === 0 ? "0" : value < 0.1 ? "< 0.1" : value.toFixed(value < 10 ? 1 : 0)} %`
}

export const span = seconds => (seconds < 60 ? `${seconds} s` : `${seconds / 60} min`)
