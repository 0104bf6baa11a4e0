// The keyboard. Views say what they do with keys; fields keep theirs.

import {VIEWS, go, place} from "./place.js"

const views = {}
const dialog = document.querySelector("dialog[data-help]")

export const help = () => dialog.showModal()
dialog.querySelector("button").onclick = () => dialog.close()

export const keysOf = (view, does) => (views[view] = does)

export function listen() {
	document.addEventListener("keydown", event => {
		if (dialog.open || event.defaultPrevented || event.isComposing) return
		const does = views[place().view]
		const inField = event.target.matches("input, textarea, select")
		if (event.key === "Escape") {
			if (inField) event.target.blur()
			else does.close?.()
		} else if (event.key === "Enter" && event.ctrlKey) {
			// A question has the key for itself.
			const ask = event.target.closest("[data-ask]")
			if (ask) ask.requestSubmit()
			else does.call?.()
		} else if (!inField && !event.ctrlKey && !event.metaKey && !event.altKey && does.key(event)) event.preventDefault()
	})
}

// The keys that are the same everywhere, with what the view does: `next`, `previous`, `open`, …
export function common(does) {
	const names = {j: "next", ArrowDown: "next", k: "previous", ArrowUp: "previous", f: "freeze", "+": "zoomIn", "=": "zoomIn", "-": "zoomOut", _: "zoomOut"}
	const key = ({key, target}) => {
		if (/^[1-5]$/.test(key)) go({view: VIEWS[Number(key) - 1]})
		else if (key === "?") help()
		else if (key === "/") {
			const field = document.querySelector("main section:not([hidden]) :is([data-filter], [data-search])")
			field?.focus()
			field?.select()
		} else if (key === "Enter") {
			// A button or link that has the focus does what it says.
			return !target.closest("button, a, summary") && does.open?.()
		} else {
			const name = Object.hasOwn(names, key) && names[key]
			// Arrows scroll a block that has the focus.
			if (!does[name] || target.closest("pre")) return false
			does[name]()
		}
		return true
	}
	return {...does, key}
}
