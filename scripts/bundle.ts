// bundle — puts the modules of a build into one file, src/modules.js. Node takes more than half a millisecond of CPU
// for each module that a process loads, and a server has several hundred: from one file, a process needs two thirds of
// the CPU time to start.
//
// Node's cache of compiled code has of a file what V8 compiles when it loads it: functions in parentheses, and no
// others. So modules that every node loads when it starts are such functions: from the cache, a server starts with
// another sixth less. All modules would be too many to read for each process.
//
// It reads what our compiler makes of our sources: imports and exports by name, at the beginning of a line. Whatever it
// cannot read ends the build.
//
// Invariants:
//   Bundle.B1. A module is evaluated when it is first imported, once, after those that it imports, as Node does it.
//   Bundle.B2. What is opened by its path stays a file of its own: the doors, the command, and what nobody imports,
//       because a process or a thread begins with it. All of them share the modules.
//   Bundle.B3. Packages and Node's own modules are loaded by the module that imports them, when it is evaluated.

import { globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, posix } from "node:path";

const BUNDLE = "src/modules.js";
const IMPORT = /^import\s+([^"]*?)\s+from\s+"([^"]+)"(?:\s+with\s+\{[^}]*\})?;$/gm;
const EXPORT_FROM = /^export\s+\{([^}]*)\}\s+from\s+"([^"]+)";$/gm;
const EXPORT_LIST = /^export\s+\{([^}]*)\};$/gm;
const EXPORT_DECLARATION = /^export\s+(?=(?:async\s+)?(?:function\*?|class|const)\s+(\w+))/gm;
const LAZY_IMPORT = /\bimport\("(\.[^"]+)"\)/g;
/** At the top level. */
const WAITS = /^(?:(?:const|let)\s.*=\s*)?await\s/m;
const UNREAD = /^(?:import|export)\b.*$/m;

const PROLOGUE = `// The modules of this package, each evaluated when it is first imported.

import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const root = new URL("../", import.meta.url);
const modules = {};
const loaded = {};

export function load(path) {
  return (loaded[path] ??= modules[path]());
}

/** What import.meta is in a file of its own. */
function metaOf(path) {
  const { href: url } = new URL(path, root);
  const filename = process.getBuiltinModule("node:url").fileURLToPath(url);
  return { url, filename, dirname: process.getBuiltinModule("node:path").dirname(filename) };
}
`;

/** The modules of a build by their paths below it, with their text. */
type Sources = ReadonlyMap<string, string>;
type Module = {
  /** A function that evaluates it. */
  readonly text: string;
  readonly exported: readonly string[];
};

/**
 * Bundles what is in `dist`. `kept`: files that are opened by their path, besides those that nobody imports. `starts`:
 * what nodes load first; V8 compiles it and all that it imports at once. Throws for a module that cannot be bundled.
 */
export function bundle(dist: string, kept: readonly string[], starts: readonly string[] = []): void {
  const paths = globSync("src/**/*.js", { cwd: dist }).map((path) => path.replaceAll("\\", "/"));
  const sources = new Map(paths.toSorted().map((path) => [path, readFileSync(join(dist, path), "utf8")]));
  const imported = new Set([...sources].flatMap(([path, text]) => importsOf(path, text)));
  const atOnce = closureOf(starts, sources);
  const texts: string[] = [];
  for (const [path, source] of sources) {
    if (!imported.has(path) && !kept.includes(path)) {
      writeFileSync(join(dist, path), startOf(path, source, sources));
      continue;
    }
    const { text, exported } = moduleOf(path, source, sources);
    texts.push(`modules["${path}"] = ${atOnce.has(path) ? `(${text})` : text};\n`);
    if (kept.includes(path))
      writeFileSync(join(dist, path), `${loadImport(path)}export const { ${exported.join(", ")} } = load("${path}");\n`);
    else rmSync(join(dist, path));
  }
  writeFileSync(join(dist, BUNDLE), inAscii([PROLOGUE, ...texts].join("\n")));
}

/**
 * Without comments, what is not ASCII is in texts. V8 keeps a file of ASCII in half of the memory, and reads it sooner.
 */
function inAscii(text: string): string {
  return text.replaceAll(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function importsOf(path: string, text: string): string[] {
  const lazy = [...text.matchAll(LAZY_IMPORT)].map(([, target = ""]) => posix.join(posix.dirname(path), target));
  return [...importsAtOnce(path, text), ...lazy];
}

/** Those that are evaluated before the module is. */
function importsAtOnce(path: string, text: string): string[] {
  const targets = [...text.matchAll(IMPORT), ...text.matchAll(EXPORT_FROM)].map(([, , target = ""]) => target);
  return targets.filter((target) => target.startsWith(".")).map((target) => posix.join(posix.dirname(path), target));
}

/** These modules, and all that are evaluated with them. Throws for one that there is not. */
function closureOf(paths: readonly string[], sources: Sources): ReadonlySet<string> {
  const found = new Set(paths);
  for (const path of found) {
    const source = sources.get(path);
    if (source === undefined) throw new Error(`${path} is no module of the build`);
    for (const imported of importsAtOnce(path, source)) found.add(imported);
  }
  return found;
}

function loadImport(path: string): string {
  const target = posix.relative(posix.dirname(path), BUNDLE);
  return `import { load } from "${target.startsWith(".") ? target : `./${target}`}";\n`;
}

/** A file that nobody imports: as it was, with its modules from the bundle. */
function startOf(path: string, source: string, sources: Sources): string {
  const text = source.replaceAll(IMPORT, (line: string, names: string, target: string) =>
    target.startsWith(".") ? binding(names, loadOf(path, target, sources)) : line,
  );
  return loadImport(path) + lazyLoads(path, text, sources);
}

/** A module as a function that returns what it exports. */
function moduleOf(path: string, source: string, sources: Sources): Module {
  if (WAITS.test(source)) throw new Error(`${path} waits at its top level, and is imported: it cannot be evaluated at once`);
  const exported = new Map<string, string>();
  const body = source
    .replaceAll(IMPORT, (_, names: string, target: string) =>
      binding(names, target.startsWith(".") ? loadOf(path, target, sources) : packageOf(target)),
    )
    .replaceAll(EXPORT_FROM, (_, list: string, target: string) => {
      const from = loadOf(path, target, sources);
      for (const { name, as } of namesOf(list)) exported.set(as, `${as}: ${from}.${name}`);
      return `${from};`;
    })
    .replaceAll(EXPORT_LIST, (_, list: string) => {
      for (const { name, as } of namesOf(list)) exported.set(as, `${as}: ${name}`);
      return "";
    })
    .replaceAll(EXPORT_DECLARATION, (_, name: string) => {
      exported.set(name, name);
      return "";
    })
    .replaceAll("import.meta", "$meta");
  const [unread] = UNREAD.exec(body) ?? [];
  if (unread !== undefined) throw new Error(`${path}: the bundle cannot read "${unread}"`);
  const meta = body.includes("$meta") ? `const $meta = metaOf("${path}");\n` : "";
  const result = `return { ${[...exported.values()].join(", ")} };`;
  return { text: `function () {\n${meta}${lazyLoads(path, body, sources)}${result}\n}`, exported: [...exported.keys()] };
}

function lazyLoads(path: string, text: string, sources: Sources): string {
  return text.replaceAll(LAZY_IMPORT, (_, target: string) => `(async () => ${loadOf(path, target, sources)})()`);
}

function loadOf(path: string, target: string, sources: Sources): string {
  const module = posix.join(posix.dirname(path), target);
  if (!sources.has(module)) throw new Error(`${path} imports ${target}, which is no module of the build`);
  return `load("${module}")`;
}

/** Bundle.B3. Those that we import have no default export but themselves. */
function packageOf(name: string): string {
  return name.startsWith("node:") ? `process.getBuiltinModule("${name}")` : `require("${name}")`;
}

/** Of "a, b as c". */
function namesOf(list: string): { readonly name: string; readonly as: string }[] {
  const entries = list.split(",").map((entry) => entry.trim());
  return entries
    .filter((entry) => entry !== "")
    .map((entry) => {
      const [name = "", as = name] = entry.split(/\s+as\s+/);
      return { name, as };
    });
}

/** The statement that gives the names of an import their values. */
function binding(names: string, value: string): string {
  const [, list] = /^\{([^}]*)\}$/.exec(names) ?? [];
  if (list !== undefined) return `const { ${list.trim().replaceAll(/\s+as\s+/g, ": ")} } = ${value};`;
  const [, name] = /^(?:\*\s+as\s+)?(\w+)$/.exec(names) ?? [];
  if (name === undefined) throw new Error(`the bundle cannot read "import ${names}"`);
  return `const ${name} = ${value};`;
}
