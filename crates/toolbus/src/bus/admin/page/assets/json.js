// JSON as it was written: values keep their own text, so that 1.0, 18446744073709551615 and the
// order of keys are shown and sent as they came. A node is {kind, raw} with `items` of an array,
// `entries` ([key, node] in order) of an object, `value` of a string.

const SPACE = /[ \t\n\r]*/y
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y
const WORD = /true|false|null/y
const DEPTH = 200

// The node of a text, or an Error that says where it is no JSON.
export function parse(text) {
	let at = 0
	const fail = why => {
		throw new SyntaxError(`${at < text.length ? why : "it ends too early"} at character ${at + 1}`)
	}
	const match = pattern => {
		pattern.lastIndex = at
		if (!pattern.test(text)) return
		const found = text.slice(at, pattern.lastIndex)
		at = pattern.lastIndex
		return found
	}
	const takes = one => {
		match(SPACE)
		if (text[at] !== one) return false
		at += 1
		return true
	}
	const string = () => {
		match(SPACE)
		const raw = match(STRING) ?? fail("no string")
		return {kind: "string", raw, value: JSON.parse(raw)}
	}
	const value = depth => {
		if (DEPTH < depth) fail("too deep")
		match(SPACE)
		const from = at
		if (text[at] === '"') return string()
		for (const [open, close, kind, name] of [
			["{", "}", "object", "entries"],
			["[", "]", "array", "items"]
		]) {
			if (!takes(open)) continue
			const inner = []
			if (!takes(close)) {
				do {
					const key = kind === "object" && string().value
					if (kind === "object" && !takes(":")) fail("no colon")
					const one = value(depth + 1)
					inner.push(kind === "object" ? [key, one] : one)
				} while (takes(","))
				if (!takes(close)) fail(`no comma or ${close}`)
			}
			return {kind, [name]: inner, raw: text.slice(from, at)}
		}
		const word = match(WORD)
		if (word) return {kind: word === "null" ? "null" : "boolean", raw: word}
		return {kind: "number", raw: match(NUMBER) ?? fail("no JSON")}
	}
	const node = value(0)
	match(SPACE)
	if (at < text.length) fail("more than one value")
	return node
}

export const member = (node, key) => (node?.kind === "object" ? node.entries.findLast(([name]) => name === key)?.[1] : undefined)

export const textOf = node => (node?.kind === "string" ? node.value : undefined)
export const say = (node, key) => textOf(member(node, key))

export const numberOf = node => (node?.kind === "number" ? Number(node.raw) : undefined)

export const plain = node => node && JSON.parse(node.raw)

export const quote = text => JSON.stringify(text)

export function compact(node) {
	if (node.kind === "array") return `[${node.items.map(compact).join(",")}]`
	if (node.kind === "object") return `{${node.entries.map(([key, value]) => `${quote(key)}:${compact(value)}`).join(",")}}`
	return node.raw
}

// Pieces [kind, text] with two spaces of indent: `key`, `string`, `number`, `boolean`, `null` or "".
export function pretty(node, indent = "", into = []) {
	const inner = node.entries ?? node.items
	if (!inner) into.push([node.kind, node.raw])
	else {
		const [open, close] = node.entries ? "{}" : "[]"
		const deeper = `${indent}  `
		inner.forEach((item, at) => {
			into.push(["", `${at ? "," : open}\n${deeper}`])
			if (node.entries) into.push(["key", quote(item[0])], ["", ": "])
			pretty(node.entries ? item[1] : item, deeper, into)
		})
		into.push(["", inner.length ? `\n${indent}${close}` : open + close])
	}
	return into
}

export const prettyText = node =>
	pretty(node)
		.map(([, text]) => text)
		.join("")
