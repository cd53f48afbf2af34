// tidy — keeps the building as CONVENTIONS describe it: rooms import only rooms below them, names say something, files
// stay readable.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { basename, dirname, join, normalize } from "node:path";
import { test } from "node:test";

/** Lowest first; a room imports only itself and rooms before it. Rooms in one entry never import each other. */
const FLOORS: readonly (readonly string[])[] = [
  ["base"],
  ["kernel"],
  ["keys"],
  ["wire"],
  ["contracts"],
  ["consistency"],
  ["store"],
  ["transport"],
  ["peer"],
  ["cluster"],
  ["scheduler", "server", "worker"],
  ["api"],
  ["nn"],
  ["faces/kv", "faces/tensors", "faces/tables", "faces/shared-model", "faces/training"],
  ["pslite"],
  ["adapters"],
  ["testing"],
  ["gpu"],
  ["node"],
  ["cli"],
];
/** Only these import node:* or a package. */
const ROOMS_WITH_NODE: ReadonlySet<string> = new Set(["node", "gpu", "cli"]);
const EMPTY_NAMES = /^(util|utils|helper|helpers|common|misc|types|manager|handler)$/;
const LINES_MAX = 600;

const root = join(import.meta.dirname, "..");
const sources = globSync("src/**/*.ts", { cwd: root })
  .map((path) => path.replaceAll("\\", "/"))
  .sort();
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const isTest = (path: string): boolean => path.endsWith(".test.ts");
/** A face is a room of its own. */
const roomOf = (path: string): string => /^src\/(faces\/[^/]+|[^/]+)/.exec(path)?.[1] ?? "";
const floorOf = (room: string): number => FLOORS.findIndex((rooms) => rooms.includes(room));

function importsOf(path: string): string[] {
  return [...read(path).matchAll(/^(?:import|export)\b[^;]*?from "([^"]+)";|^import "([^"]+)";|\bimport\("([^"]+)"\)/gms)].map(
    (match) => match[1] ?? match[2] ?? match[3] ?? "",
  );
}

test("every room has its place in the building", () => {
  for (const path of sources) assert.ok(floorOf(roomOf(path)) >= 0, `${path}: there is no room ${roomOf(path)}`);
});

test("a room imports only the rooms below it", () => {
  for (const path of sources.filter((candidate) => !isTest(candidate))) {
    for (const target of importsOf(path).filter((specifier) => specifier.startsWith("."))) {
      const room = roomOf(path);
      const other = roomOf(normalize(join(dirname(path), target)).replaceAll("\\", "/"));
      if (room !== other) assert.ok(floorOf(other) < floorOf(room), `${path} imports ${target}: ${room} may not know ${other}`);
    }
  }
});

/** What a file imports by value; dynamic imports counted in unless told otherwise. */
function valueImportsOf(path: string, { dynamic = true }: { readonly dynamic?: boolean } = {}): string[] {
  const text = read(path)
    .replaceAll(/^(?:import|export) type\b[^;]*;/gms, "")
    .replaceAll(/^import \{(?:\s*type \w+(?: as \w+)?,?)+\s*\} from[^;]*;/gms, "");
  const targets = text.matchAll(dynamic ? /(?:from|^import|\bimport\() ?"(\.[^"]+)"/gm : /(?:from|^import) "(\.[^"]+)"/gm);
  return [...targets].map(([, target = ""]) => normalize(join(dirname(path), target)).replaceAll("\\", "/"));
}

/** A file and all that importing it by value brings along. */
function closureOf(root: string, options: { readonly dynamic?: boolean } = {}): Set<string> {
  const seen = new Set<string>();
  const open = [root];
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    if (seen.has(path)) continue;
    seen.add(path);
    open.push(...valueImportsOf(path, options));
  }
  return seen;
}

test("no file imports itself by value, over whatever others", () => {
  const done = new Set<string>();
  const visit = (path: string, way: readonly string[]): void => {
    assert.ok(!way.includes(path), `${[...way.slice(way.indexOf(path)), path].join(" imports ")}`);
    if (done.has(path)) return;
    for (const target of valueImportsOf(path, { dynamic: false })) visit(target, [...way, path]);
    done.add(path);
  };
  for (const path of sources.filter((candidate) => !isTest(candidate))) visit(path, []);
  assert.ok(done.size > 500);
});

const isForeignToClients = (path: string): boolean =>
  ["server", "scheduler"].includes(roomOf(path)) || /(pacer|table-store)\.ts$/.test(path);

test("a client contains no server: what a session brings along has no file of server, scheduler, pacer or table store", () => {
  const closure = closureOf("src/api/session.ts");
  assert.ok(closure.has("src/api/checkpoint.ts"));
  assert.deepEqual([...closure].filter(isForeignToClients), []);
});

test("a worker's root brings along nothing that only sessions need: who opens sessions hands that in", () => {
  const closure = closureOf("src/node/worker-root.ts");
  assert.ok(closure.has("src/worker/router.ts") && closure.has("src/node/transport/socket-link.ts"));
  const forSessions =
    /^src\/(api|store|wire\/codecs|worker\/(cache|collective))\/|^src\/worker\/(parameter-engine|worker-services|tensor|embedding|parameter|parameter-control)\.ts$/;
  assert.deepEqual(
    [...closure].filter((path) => forSessions.test(path)),
    [],
  );
});

test("a worker contains no other role: what connect and the main door bring along has no file of server, scheduler, pacer or table store", () => {
  for (const path of ["src/node/connect.ts", "src/node/weighbridge.ts"]) {
    const closure = closureOf(path);
    assert.ok(closure.has("src/worker/worker-node.ts") && closure.has("src/node/transport/socket-transport.ts"), path);
    assert.deepEqual([...closure].filter(isForeignToClients), [], path);
  }
});

test("a worker that makes no kv requests loads nothing of the kv face", () => {
  const closure = [...closureOf("src/node/connect.ts")];
  assert.deepEqual(
    closure.filter((path) => path.startsWith("src/faces/kv/") || /^src\/worker\/(router\/)?kv-/.test(path)),
    [],
  );
});

test("a process loads its own role alone: what the roots, doors and commands of a role import at once has no file of another one", () => {
  const roles = ["server", "scheduler", "worker"];
  const loaded: Readonly<Record<string, readonly string[]>> = {
    "src/node/server-root.ts": ["server"],
    "src/node/scheduler-root.ts": ["scheduler"],
    "src/node/worker-root.ts": ["worker"],
    "src/node/embedded-cluster.ts": roles,
    "src/node/start.ts": [],
    "src/node/index.ts": ["worker"], // workerInit is for workers
    "src/node/training.ts": ["worker"],
    "src/faces/kv/index.ts": ["worker"], // KVWorker
    "src/faces/tensors/index.ts": ["worker"],
    "src/cli/scheduler.ts": [],
    "src/cli/server.ts": [],
    "src/cli/worker.ts": [],
  };
  for (const [path, own] of Object.entries(loaded)) {
    const rooms = new Set([...closureOf(path, { dynamic: false })].map(roomOf));
    assert.deepEqual(
      roles.filter((role) => rooms.has(role)),
      own,
      path,
    );
  }
});

test("a Postoffice is ps-lite's word: beside its own face, only the root of that face and the clusters of tests know it", () => {
  const knowing = sources.filter((path) => !isTest(path) && /kv\/postoffice\.ts"|"\.\/postoffice\.ts"/.test(read(path)));
  assert.deepEqual(
    knowing.filter((path) => !["faces/kv", "testing"].includes(roomOf(path))),
    ["src/node/start.ts"],
  );
  assert.ok(read("src/faces/kv/postoffice.ts").split("\n").length <= 200);
});

test("who owns what is known to the keys, the router, the scheduler, the server's ownership check and the exchange of parts alone", () => {
  const knows = /^src\/(keys\/|worker\/router(\.ts|\/)|scheduler\/|server\/(ownership\.ts|copy\/)|testing\/)/;
  const placements = /^src\/keys\/(placement|placement-of|ring-placement)\.ts$/;
  for (const path of sources.filter((candidate) => !isTest(candidate) && !knows.test(candidate))) {
    for (const target of importsOf(path).filter((specifier) => specifier.startsWith("."))) {
      const imported = normalize(join(dirname(path), target)).replaceAll("\\", "/");
      assert.doesNotMatch(
        imported,
        placements,
        `${path} imports ${target}: it says what a request is about, and the router finds the owner`,
      );
    }
  }
});

test("contracts hold no handler and no state", () => {
  for (const path of sources.filter((candidate) => roomOf(candidate) === "contracts")) {
    assert.doesNotMatch(read(path), /^(export )?(let|var|class)\b/m, path);
    assert.doesNotMatch(read(path), /new (Map|Set|WeakMap)\b/, path);
  }
});

test("only the rooms for it import node:* or a package", () => {
  for (const path of sources.filter((candidate) => !isTest(candidate) && !ROOMS_WITH_NODE.has(roomOf(candidate)))) {
    for (const target of importsOf(path)) assert.ok(target.startsWith("."), `${path} imports ${target}`);
  }
});

test("nothing lies deeper than src/room/folder/file.ts, and a face's folders one deeper", () => {
  for (const path of sources) assert.ok(path.slice(`src/${roomOf(path)}/`.length).split("/").length <= 2, path);
});

test("names are kebab-case and say something", () => {
  for (const path of sources) {
    const name = basename(path).replace(/(\.test)?\.ts$/, "");
    assert.match(name, /^[a-z0-9]+(-[a-z0-9]+)*$/, path);
    assert.doesNotMatch(name, EMPTY_NAMES, path);
  }
});

test("every source file opens by saying what it is", () => {
  for (const path of sources) assert.match(read(path), /^\/\/ /, path);
});

test("no file is a dumping ground", () => {
  for (const path of sources.filter((candidate) => candidate !== "src/kernel/simd-module.ts")) {
    const lines = read(path).split("\n").length;
    assert.ok(lines <= LINES_MAX, `${path} has ${lines} lines; the limit is ${LINES_MAX}`);
  }
});

test("doors list their names one by one", () => {
  for (const path of sources) assert.doesNotMatch(read(path), /^export \* /m, path);
  for (const path of sources.filter((candidate) => basename(candidate) === "index.ts")) {
    assert.match(read(path), /^\/\/ The door `weighbridge\//, `${path}: only public doors are called index.ts`);
  }
});

test("nothing is left to do, and nothing is any", () => {
  for (const path of sources) {
    assert.doesNotMatch(read(path), /\b(TODO|FIXME|XXX)\b/, path);
    const code = read(path).replaceAll(/\/\*.*?\*\/|\/\/.*$/gms, "");
    assert.doesNotMatch(code, /(: any\b|<any>|\bas any\b)/, path);
  }
});

test("what is exported is used in another file", () => {
  const paths = globSync("{src,test,bench,examples,templates,scripts}/**/*.{ts,mjs}", { cwd: root });
  const words = new Map(paths.map((path) => [path.replaceAll("\\", "/"), new Set(read(path).match(/\w+/g))]));
  for (const path of sources) {
    for (const [, name = ""] of read(path).matchAll(/^export (?:async )?(?:function\*?|const|class) (\w+)/gm)) {
      const isUsed = [...words].some(([other, known]) => other !== path && known.has(name));
      assert.ok(isUsed, `${path} exports ${name}, which no other file names`);
    }
  }
});

test("files that comments name are there", () => {
  const names = new Set(
    globSync("{src,kernels,test,bench,examples,templates,scripts}/**/*.ts", { cwd: root }).map((path) => basename(path)),
  );
  for (const path of sources.filter((candidate) => !isTest(candidate))) {
    const comments = (read(path).match(/^\s*(\/\/|\/\*\*|\*).*$/gm) ?? []).join("\n");
    for (const [, name = ""] of comments.matchAll(/(?<![\w.*-])([a-z0-9]+(?:-[a-z0-9]+)*\.ts)\b/g)) {
      assert.ok(names.has(name), `${path} speaks of ${name}, which is not there`);
    }
  }
});

test("decisions take their clock and chance from outside", () => {
  const rooms = new Set([
    "base",
    "keys",
    "wire",
    "consistency",
    "store",
    "transport",
    "peer",
    "contracts",
    "scheduler",
    "server",
    "worker",
    "faces/kv",
  ]);
  for (const path of sources.filter((candidate) => !isTest(candidate) && rooms.has(roomOf(candidate)))) {
    assert.doesNotMatch(
      read(path),
      /\b(Date\.now|performance\.now|Math\.random|setTimeout|setInterval|setImmediate|queueMicrotask)\(/,
      path,
    );
  }
});

test("rooms that run in pages too do without crypto.randomUUID, which pages over plain HTTP lack", () => {
  for (const path of sources.filter((source) => !ROOMS_WITH_NODE.has(roomOf(source)) && !isTest(source)))
    assert.doesNotMatch(read(path), /\brandomUUID\(/, path);
});

test("addresses in sources and tests are loopback, or of the ranges for documentation, which lead nowhere", () => {
  for (const path of [...sources, ...globSync("test/**/*.ts", { cwd: root })]) {
    for (const [address] of read(path).matchAll(/(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?!\.?\d)/g)) {
      const leadsNowhere = /^(127\.|0\.0\.0\.0$|255\.|192\.0\.2\.|198\.51\.100\.|203\.0\.113\.|[3-9]\d\d\.)/.test(address);
      assert.ok(leadsNowhere, `${path} has ${address}`);
    }
  }
});

/** The labels of invariants that headers of files define: "TableStore.T1" in "//   TableStore.T1. A row …". */
function definedLabels(): string[] {
  const paths = globSync("{src,kernels,scripts,test,bench}/**/*.{ts,mjs}", { cwd: root });
  return paths.flatMap((path) => [...read(path).matchAll(/^\/\/ {3}([A-Z]\w*\.[A-Z]\d+)\. /gm)].map(([, label = ""]) => label));
}

test("the label of an invariant is unique, and every label that code, tests or pages cite is defined", () => {
  const labels = definedLabels();
  const repeated = labels.filter((label, i) => labels.indexOf(label) !== i);
  assert.ok(labels.length > 1000, String(labels.length));
  assert.deepEqual(repeated, []);
  // Those of Availability are defined in docs/decisions/0079.
  const known = new Set([...labels, ...Array.from({ length: 8 }, (_, i) => `Availability.I${i + 1}`)]);
  const enums = new Set(["ElementType", "Rank", "ValueCodecId"]); // their members look like labels
  const pages = globSync("{src,scripts,test,bench,examples,templates}/**/*.ts", { cwd: root });
  for (const path of [...pages, "ARCHITECTURE.md", "CONTRIBUTING.md", ...globSync("{spec,docs/guides}/*.md", { cwd: root })]) {
    for (const [label, name = ""] of read(path).matchAll(/\b([A-Z]\w*)\.[A-Z]\d{1,2}\b/g))
      assert.ok(known.has(label) || enums.has(name), `${path} cites ${label}, which no file defines`);
  }
});

const commented = globSync("{src,kernels,scripts,test,bench,examples,templates}/**/*.{ts,mjs,cjs}", { cwd: root })
  .map((path) => path.replaceAll("\\", "/"))
  .filter((path) => !path.includes("node_modules/") && !/^src\/(kernel\/simd|nn\/nn)-module\.ts$/.test(path));

/** What looks like a label and is none: an engine, and the types of elements in checkpoints. */
const NO_LABELS = new Set(["V8", "F16", "F32", "F64", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64"]);

/** The labels that a text cites without saying whose they are. The last label of a range need not say it again. */
function bareLabels(text: string): string[] {
  const cited = text
    .replaceAll(/\n\s*(?:\/\/|\*) +/g, " ") // a citation may go on in the next line of its comment
    .replaceAll(/\b[A-Z]\w*\.[A-Z]\d+ to [A-Z]\d+/g, "")
    .replaceAll(/\.md, [A-Z]\d+(?:(?:, | and | to )[A-Z]\d+)*/g, ""); // a rule of a page: "spec/protocol.md, R2 and R9"
  return [...cited.matchAll(/(?<![\w.$#/-])[A-Z]\d{1,2}(?![\w(]|\.\w|-\w)/g)]
    .map(([label]) => label)
    .filter((label) => !NO_LABELS.has(label));
}

test("a label is cited with the name of the file that defines it, or with the page whose rule it is", () => {
  assert.deepEqual(bareLabels("R1, (R2), Frame.F1, F2"), ["R1", "R2", "F2"]);
  assert.deepEqual(bareLabels("Frame.F1 to F3 (protocol.md, F1, F2 and F4)"), []);
  // The first two write pages of spec/, where a label stands alone; this test has examples.
  const ofPages = /^test\/conformance\/(functions\/|key-vectors\.ts)|^test\/tidy\.test\.ts/;
  for (const path of commented.filter((candidate) => !ofPages.test(candidate))) assert.deepEqual(bareLabels(read(path)), [], path);
});

const COMMENT_COLUMNS_MAX = 120;
/** A line that is a comment, or code and then a comment: `//` with a space on either side, and no quote behind it. */
const WITH_COMMENT = /^\s*(?:\/\/|\/\*|\*)|\s\/\/ [^"'`]*$/;

/** Verbs of the doors whose last argument is an object of options, whatever stands there. */
const OPTIONS_LAST =
  /\.(?:push|pull|pushPull|pushRows|pullRows|start|configure|drop|tensor|embedding|units|checkpoint|restore|meet|call|callAll|close|barrier|collective|step|ready|create)\(/g;

/** Calls in which undefined before the options is a value, and calls of Node. */
const TAKES_UNDEFINED: ReadonlyMap<string, string> = new Map([
  ["sleep", "setTimeout of node:timers/promises resolves with it"],
  ["withOutcome", "the failure of a read has no outcome"],
  ["end", "the silence of a link ends without an error"],
  ["change", "there was no node before"],
  ["leave", "a member leaves without an error"],
  ["#run", "a read of a cache pushes nothing"],
  ["#submit", "a push fills nothing, a pull sends no values"],
  ["joined", "no row type was there before"],
]);
/** What the last argument of a call with options looks like: an object, or a name for one. */
const IS_OPTIONS = /^\{|(?:options|wait|rest|more|bad)$/i;

/** The call that an argument at `index` belongs to: its name, and where its arguments begin. */
function callAround(source: string, index: number): { readonly name: string; readonly from: number } | undefined {
  let depth = 0;
  for (let at = index - 1; at >= 0; at--) {
    const letter = source[at] as string;
    if (")]}".includes(letter)) depth++;
    if (!"([{".includes(letter) || depth-- > 0) continue;
    const [, name] = /([\w$#]+!?)(?:<[^()]*>)?$/.exec(source.slice(Math.max(0, at - 80), at)) ?? [];
    return letter === "(" && name !== undefined ? { name, from: at + 1 } : undefined;
  }
  return undefined;
}

/** The arguments of the call whose parenthesis opens before `from`, as they are written. */
function argumentsFrom(source: string, from: number): string[] {
  const given = [""];
  let depth = 0;
  for (let at = from; at < source.length; at++) {
    const letter = source[at] as string;
    if (depth === 0 && letter === ")") break;
    if ("([{".includes(letter)) depth++;
    if (")]}".includes(letter)) depth--;
    if (depth === 0 && letter === ",") given.push("");
    else given[given.length - 1] += letter;
  }
  return given.map((text) => text.trim()).filter((text) => text !== "");
}

test("no call has undefined in the middle: how long it may take, and where values land, are options (0089)", () => {
  const pages = globSync(["*.md", "docs/*.md", "docs/guides/*.md", "{examples,templates}/**/*.md"], { cwd: root });
  let callCount = 0;
  const taken = new Set<string>();
  for (const path of [...globSync(["{src,test,examples,templates,bench}/**/*.ts"], { cwd: root }), ...pages]) {
    const source = readFileSync(join(root, path), "utf8");
    for (const { index, 0: verb } of source.matchAll(OPTIONS_LAST)) {
      callCount++;
      const given = argumentsFrom(source, index + verb.length);
      const line = source.slice(0, index).split("\n").length;
      assert.ok(!given.slice(0, -1).includes("undefined"), `${path}:${line}: ${verb}${given.join(", ")})`);
    }
    for (const { index } of source.matchAll(/(?<=[(,]\s*)undefined,/g)) {
      const { name, from } = callAround(source, index) ?? { name: "", from: 0 };
      if (name === "" || name.endsWith("!")) continue; // "!": untyped, to be refused
      const given = argumentsFrom(source, from);
      if (given.length < 2 || !IS_OPTIONS.test(given.at(-1) as string)) continue;
      taken.add(name);
      const line = source.slice(0, index).split("\n").length;
      assert.ok(TAKES_UNDEFINED.has(name), `${path}:${line}: ${name}(${given.join(", ")})`);
    }
  }
  assert.deepEqual(
    [...TAKES_UNDEFINED.keys()].filter((name) => !taken.has(name)),
    [],
    "calls that there are no more",
  );
  assert.ok(callCount > 5_000, `it looked at ${callCount} calls`);
});

test("comments have at most 120 columns", () => {
  for (const path of commented) {
    const long = read(path)
      .split("\n")
      .findIndex((line) => [...line].length > COMMENT_COLUMNS_MAX && WITH_COMMENT.test(line));
    assert.equal(long, -1, `${path}:${long + 1} has a comment beyond column ${COMMENT_COLUMNS_MAX}`);
  }
});
