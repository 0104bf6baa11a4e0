// Where the page is: the fragment of its address, `name=value` joined by `&`. The token is taken
// out of it before anything is asked, and kept for this tab alone.

const KEY = "toolbus-page-token"
export const VIEWS = ["overview", "calls", "tools", "journal", "config"]
export const WINDOWS = [10, 30, 60, 300, 900]
const NAMES = ["view", "filter", "window", "call", "tool", "search", "back"]
// A change of these can be gone back from.
const STEPS = ["view", "call", "tool"]

let present = settle({})
const listeners = new Set()

// What the address says, each value a text; those that make no sense are empty.
export const place = () => present

export const onPlace = listener => listeners.add(listener)

export function go(change) {
	const next = settle({...present, ...change})
	const isOther = name => present[name] !== next[name]
	if (!NAMES.some(isOther)) return
	history[STEPS.some(isOther) ? "pushState" : "replaceState"](null, "", write(next))
	become(next)
}

export const address = at => location.origin + location.pathname + write(at)

export const token = () => sessionStorage.getItem(KEY) ?? ""
export const keepToken = text => sessionStorage.setItem(KEY, text)

export function arrive() {
	const said = {}
	for (const pair of location.hash.slice(1).split("&")) {
		const [, name, value] = /^(\w+)=(.*)$/.exec(pair) ?? []
		if (name !== "token" && !NAMES.includes(name)) continue
		try {
			said[name] = decodeURIComponent(value)
		} catch {
			// Half an escape: as if it were not there.
		}
	}
	const {token, ...at} = said
	const next = settle(at)
	if (token != null) {
		keepToken(token)
		history.replaceState(null, "", write(next))
	}
	become(next)
	return token
}

function become(next) {
	const before = present
	present = next
	listeners.forEach(listener => listener(next, before))
}

function settle(said) {
	const at = Object.fromEntries(NAMES.map(name => [name, said[name] ?? ""]))
	if (!VIEWS.includes(at.view)) at.view = "overview"
	if (!WINDOWS.includes(Number(at.window))) at.window = ""
	if (!/^[1-9]\d{0,15}$/.test(at.call)) at.call = ""
	return at
}

function write(at) {
	const value = text => encodeURIComponent(text).replace(/%(3A|2C|2F|22)/g, decodeURIComponent)
	return `#${NAMES.filter(name => at[name])
		.map(name => `${name}=${value(at[name])}`)
		.join("&")}`
}
