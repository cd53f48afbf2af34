// show-value — a value as an error message shows it. Never throws, and shows at most LENGTH_MAX letters.

const LENGTH_MAX = 80;

/** JSON where possible: text in quotes, lists and objects. Numbers, bigints and symbols as code writes them. */
export function showValue(value: unknown): string {
  const text = textOf(value);
  return text.length > LENGTH_MAX ? `${text.slice(0, LENGTH_MAX)}…` : text;
}

function textOf(value: unknown): string {
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function") return "a function";
  if (typeof value === "symbol") return value.toString();
  if (typeof value === "number") return `${value}`; // JSON knows no NaN and no Infinity
  if (value === undefined) return "undefined";
  try {
    if (ArrayBuffer.isView(value)) return `a ${value.constructor.name}`;
    return JSON.stringify(value, (_, part: unknown) => (typeof part === "bigint" ? `${part}n` : part)) ?? "an object";
  } catch {
    return "an object"; // it refers to itself, or what it says of itself throws
  }
}
