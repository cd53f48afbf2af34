// page — spec/functions.md: every built-in function with its fields, target, kind and errors. What contracts say is
// taken from them, the rest from the words beside (documented.ts). scripts/make-functions.ts writes it,
// functions.test.ts compares.

import type { Contract, Effect, Target } from "../../../src/contracts/contract.ts";
import { FunctionId } from "../../../src/wire/function-id.ts";
import type { Fields, FieldValues } from "../../../src/wire/function-schema.ts";
import type { DocumentedFunction, FunctionFamily } from "./documented.ts";
import { type FieldText, fieldTexts } from "./schema-text.ts";
import { vectorFileName } from "./vectors.ts";

/** What the frames of a golden vector say; the page looks into some of them. */
export type VectorView = {
  readonly frames: readonly {
    readonly header: { readonly stamp: number };
    readonly payload: Readonly<Record<string, unknown>>;
  }[];
};

const TARGETS: Readonly<Record<Target, string>> = {
  part: "the owner of the keys",
  block: "the owner of the block",
  server: "a server",
  worker: "a worker",
  scheduler: "the scheduler",
  node: "any node",
};

const KINDS: Readonly<Record<Effect, string>> = {
  read: "reads",
  recordingRead: "reads, and leaves a note",
  update: "updates",
  idempotent: "idempotent",
};

const HEAD = `# Built-in functions

Generated from the contracts of \`src/contracts\` by \`npm run build:functions\`; a test compares. What frames, fields, hashes, placements and clocks are is in
[protocol.md](protocol.md) and [consistency.md](consistency.md); \`vectors/functions/\` has the golden bytes of every function by name, both ways.

- **A function by name** is a FUNCTION frame (protocol.md, §10a). \`command\` and \`arg0\` are the hashes of its name and of its signature, which is the line below its heading.
- **Served by** says who must be asked. The owner of the keys, or of the block, is that of the placement (protocol.md, §10c).
- **Kind**: a function that _updates_ has a stamp in every frame and is applied once (protocol.md, R2 and R9). One that _reads_ has none, and may run again when its answer was lost; one that _reads, and
  leaves a note_ does the same, and the note (what this worker has seen) is then the same one. An _idempotent_ one has no stamp, and means the same when it is called twice. One that _counts once_
  has no stamp either: its number in the conversation is enough (protocol.md, R8), since a worker that was restarted is in no operation with the others.
- **Stamp** and **epoch** say what requests carry: a number of the sender's updates (protocol.md, R2); the epoch of the placement by which they were cut (protocol.md, F8 and P10). Without, the field is 0. Keys
  and values have an epoch unless they have APP_CUT (protocol.md, K16).
- **Answer**: _kept_ until its caller has it (protocol.md, R8); _made anew_ when it is asked for again; _empty_: a REPLY without a payload. JSON without fields is the two bytes \`{}\`, and not empty.
- **Errors** are those that its handler gives. Beside them every function by name may fail with UNKNOWN_FUNCTION, SPEC_MISMATCH (another signature), BAD_REQUEST (bytes that do not add
  up, JSON of another shape, an update without a stamp), QUEUE_FULL (requests of several frames), ANSWER_LOST (of one that updates: it was applied, and its answer is not known any more), CLOSED and HANDLER_FAILED; with an
  epoch, also with WRONG_EPOCH, and where owners are asked with WRONG_OWNER. The control plane is answered with NO_ROUTE or FENCED to a sender that has no slot, or not that one any more.
`;

export function functionsPage(families: readonly FunctionFamily[], vectorOf: (name: string) => VectorView): string {
  const kindOf = (fn: DocumentedFunction): string =>
    fn.effect === "update" && !isStamped(fn, vectorOf) ? "counts once" : KINDS[fn.effect];
  const sections = families.map(({ title, about, functions }) =>
    [`## ${title}\n\n${about}\n`, ...functions.map((fn) => functionText(fn, kindOf(fn), vectorOf))].join("\n"),
  );
  return [HEAD, overview(families, kindOf), ...sections].join("\n");
}

function overview(families: readonly FunctionFamily[], kindOf: (fn: DocumentedFunction) => string): string {
  const rows = families.flatMap(({ functions }) =>
    functions.map((fn) => [`[\`${fn.name}\`](#${anchorOf(fn.name)})`, fn.label, serverOf(fn), kindOf(fn)]),
  );
  return `## All of them\n\n${table([["function", "named by", "served by", "kind"], ...rows])}`;
}

function serverOf({ target, servedBy }: DocumentedFunction): string {
  return servedBy ?? TARGETS[target];
}

/** As GitHub makes it of a heading. */
function anchorOf(name: string): string {
  return name.replaceAll("/", "");
}

function functionText(fn: DocumentedFunction, kind: string, vectorOf: (name: string) => VectorView): string {
  const parts = [`### ${fn.name}\n`];
  if (isByName(fn)) parts.push(`\`\`\`\n${fn.contract?.signature}\n\`\`\`\n`);
  parts.push(facts(fn, kind, vectorOf), `${fn.about}\n`);
  for (const side of ["request", "response"] as const) parts.push(...fieldTable(fn, side, vectorOf));
  if (fn.errors.length > 0) parts.push(`Errors: ${[...new Set(fn.errors)].sort().join(", ")}.\n`);
  if (fn.example !== undefined || fn.vectors.length > 0) parts.push(`Vectors: ${vectorsText(fn)}.\n`);
  return parts.join("\n");
}

/** One line: how it is named, who serves it, and what its frames carry. */
function facts(fn: DocumentedFunction, kind: string, vectorOf: (name: string) => VectorView): string {
  const { contract, label, layout = "" } = fn;
  const names = isByName(fn) ? `${label}, arg0 ${contract?.signatureHash}` : label;
  const stamp = isStamped(fn, vectorOf) ? "stamp" : "no stamp";
  const rest = contract === undefined ? [layout] : [contract.isPlaced ? "epoch" : "no epoch", `answer ${answerText(contract)}`];
  return `${[names, `served by ${serverOf(fn)}`, kind, stamp, ...rest].map((fact) => `_${fact}_`).join(" · ")}\n`;
}

function isByName({ contract }: DocumentedFunction): boolean {
  return contract?.id === FunctionId.FUNCTION;
}

/** Frames of a layout of their own say it themselves. */
function isStamped({ contract, vectors }: DocumentedFunction, vectorOf: (name: string) => VectorView): boolean {
  if (contract !== undefined) return contract.isUpdate;
  const [request] = vectors;
  return request !== undefined && vectorOf(request).frames[0]?.header.stamp !== 0;
}

function answerText({ response, keepsAnswers }: Contract): string {
  if (response.isEmpty) return "empty";
  return keepsAnswers ? "kept" : "made anew";
}

function fieldTable(fn: DocumentedFunction, side: "request" | "response", vectorOf: (name: string) => VectorView): string[] {
  const words = Object.entries(fn[side]);
  if (fn.contract === undefined || words.length === 0) return [];
  const fields = fieldTexts(
    fn.contract,
    side,
    exampleOf(fn, side, vectorOf),
    words.map(([name]) => name),
  );
  const rows = fields.map((field) => [fieldName(field), field.type, fn[side][field.name] ?? ""]);
  return [table([[side, "type", ""], ...rows])];
}

function fieldName({ name, isOptional }: FieldText): string {
  return isOptional ? `\`${name}\`, may be left out` : `\`${name}\``;
}

/** The values that its golden vector carries. */
function exampleOf(fn: DocumentedFunction, side: "request" | "response", vectorOf: (name: string) => VectorView): FieldValues<Fields> {
  if (fn.example !== undefined) return fn.example[side];
  const vector = vectorOf(fn.vectors[side === "request" ? 0 : 1] ?? "");
  return { body: vector.frames[0]?.payload.json } as unknown as FieldValues<Fields>;
}

function vectorsText({ example, name, vectors }: DocumentedFunction): string {
  const files = example === undefined ? vectors.map((vector) => `${vector}.json`) : [`functions/${vectorFileName(name)}`];
  return files.map((file) => `[${file}](vectors/${file})`).join(", ");
}

/** Columns as wide as their widest cell, as the formatter has them. */
function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(3, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: readonly string[], fill: string): string =>
    `| ${widths.map((width, i) => (cells[i] ?? "").padEnd(width, fill)).join(" | ")} |`;
  const [head = [], ...others] = rows;
  return `${[line(head, " "), line([], "-"), ...others.map((cells) => line(cells, " "))].join("\n")}\n`;
}
