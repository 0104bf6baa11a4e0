// The config as it is in force, as text like the file that it came from.

import {compact, member, parse, quote, say as says} from "./json.js"
import {get, linkState} from "./link.js"
import {time} from "./numbers.js"
import {onStore} from "./store.js"
import {$, arrange, failed, make, told} from "./text.js"

const WIDE = 72

let isRead = false

export const start = () => onStore(what => what === "snapshot" && (isRead = false))

export function show() {
	if (!isRead && linkState() === "live") read()
}

async function read() {
	isRead = true
	try {
		const node = parse(await get("/api/config"))
		const lines = toml(member(node, "tables"), []).map(line => [line.startsWith("[") ? told("b", line) : told("span", line), "\n"])
		const about = make("p.note", told("span.mono", says(node, "path")), `, read at ${time(says(node, "loaded"))}. Secrets are shown as "***".`)
		arrange($("config"), [about, make("pre.block", {$config: true, tabindex: 0}, lines)])
	} catch (error) {
		isRead = Boolean(error.status)
		arrange($("config"), [failed(error.message)])
	}
}

// Lines of a table and of the tables in it; small ones stand in their line.
function toml(node, path) {
	const isTable = ([, value]) => value.kind === "object" && (path.length < 2 || WIDE < inline(value).length)
	const lines = node.entries.filter(entry => !isTable(entry)).map(([key, value]) => `${bare(key)} = ${inline(value)}`)
	const inner = node.entries.filter(isTable)
	if (path.length && (lines.length || !inner.length)) lines.unshift(`[${path.map(bare).join(".")}]`)
	for (const [key, value] of inner) lines.push(...(lines.length ? [""] : []), ...toml(value, [...path, key]))
	return lines
}

const bare = key => (/^[\w-]+$/.test(key) ? key : quote(key))

function inline(node) {
	if (node.kind === "array") return `[${node.items.map(inline).join(", ")}]`
	if (node.kind !== "object") return compact(node)
	return node.entries.length ? `{ ${node.entries.map(([key, value]) => `${bare(key)} = ${inline(value)}`).join(", ")} }` : "{}"
}
