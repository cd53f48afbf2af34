// duplicate-key — finds a name that one object of a JSON text has twice. `JSON.parse` silently keeps the last, so two
// readers could see two different files in the same bytes. It only finds names: the text must parse.

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const BRACE_OPEN = 0x7b;
const BRACE_CLOSE = 0x7d;
const SPACE = 0x20;

/** The first repeated name, or undefined if there is none. */
export function duplicateKey(json: string): string | undefined {
  const open: Set<string>[] = [];
  for (let at = 0; at < json.length; at++) {
    const code = json.charCodeAt(at);
    if (code === BRACE_OPEN) open.push(new Set());
    else if (code === BRACE_CLOSE) open.pop();
    else if (code === QUOTE) {
      const end = endOfString(json, at);
      if (isBeforeColon(json, end + 1)) {
        const name = nameAt(json, at, end);
        const names = open.at(-1);
        if (names?.has(name)) return name;
        names?.add(name);
      }
      at = end;
    }
  }
  return undefined;
}

/** Where the string that opens at `start` has its closing quote. */
function endOfString(json: string, start: number): number {
  let at = start + 1;
  while (at < json.length && json.charCodeAt(at) !== QUOTE) at += json.charCodeAt(at) === BACKSLASH ? 2 : 1;
  return at;
}

/** Only names are followed by a colon. */
function isBeforeColon(json: string, start: number): boolean {
  let at = start;
  while (at < json.length && json.charCodeAt(at) <= SPACE) at++;
  return json.charCodeAt(at) === COLON;
}

/** The same name may be written with and without escapes. */
function nameAt(json: string, start: number, end: number): string {
  const raw = json.slice(start + 1, end);
  return raw.includes("\\") ? String(JSON.parse(json.slice(start, end + 1))) : raw;
}
