// The package as it is published: packed by `npm pack`, installed by npm into an empty project, and used from there by
// plain JavaScript.

import assert from "node:assert/strict";
import { type SpawnSyncReturns, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { before, test } from "node:test";
import { rolldown } from "rolldown";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { findOldNode } from "./find-old-node.ts";
import { DEADLINE_MS, ROOT } from "./processes.ts";

const SCRIPT = `
import { KVServer, KVWorker } from "weighbridge/kv";
import { start } from "weighbridge/node";
import { SimCluster } from "weighbridge/testing";

const office = await start();
if (office.isServer) new KVServer(office, 0);
if (office.isWorker) {
  const kv = new KVWorker(office, 0);
  const keys = BigUint64Array.of(1n, 2n);
  const vals = new Float32Array(2);
  await kv.wait(kv.pushPull(keys, Float32Array.of(3, 4), vals));
  console.log("pulled", vals.join(), typeof SimCluster);
}
await office.finalize();
`;
/** What npm packs the package from. It is copied: other tests run what is built in the repository. */
const PACKED_FROM = [
  ...["package.json", "package-lock.json", ".npmrc", "tsconfig.json", "tsconfig.build.json", "LICENSE", "README.md", "CHANGELOG.md"],
  ...["bin", "src", "scripts", "docs", "examples", "spec", "bench/RESULTS.md", "templates"],
];
/** What users get to read, run and import: another file in the package is seen here first. */
const PUBLISHED: Readonly<Record<string, readonly string[]>> = {
  bin: ["weighbridge.mjs"],
  docs: [
    ...["README.md", "command.md", "compatibility.md", "configuration.md", "demo.svg"],
    ...[
      ...["adapters", "checkpoints", "consistency", "cuda", "embedding-cache", "etcd", "first-run", "functions", "grow-and-shrink"],
      ...["install", "join-a-cluster", "look-into-a-job", "move-a-ps-lite-job", "one-machine", "online-service"],
      ...["optimizers", "parameters"],
      ...["planned-restarts", "shared-model", "tables", "train-your-own-model", "when-nodes-fail", "your-own-row-type"],
      "your-own-updater",
    ].map((name) => `guides/${name}.md`),
  ],
  spec: ["checkpoint.md", "codecs.md", "consistency.md"],
  bench: ["RESULTS.md"],
};
const PUBLISHED_DOORS = [
  ...[".", "./embedded", "./jax", "./kv", "./node", "./package.json", "./shared-model", "./tables", "./tensors", "./testing"],
  ...["./tfjs", "./training"],
];
const TARBALL = "weighbridge-0.1.0.tgz";
const SIZE_MAX = { error: 20_000, connect: 450_000 };

const repository = temporaryDirectory("package-repository");
const folder = temporaryDirectory("package");

const oldNode = findOldNode();
const modules = join(folder, "node_modules");
const tarball = join(folder, TARBALL);

before(() => {
  for (const path of PACKED_FROM) if (existsSync(join(ROOT, path))) cpSync(join(ROOT, path), join(repository, path), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(repository, "node_modules"));
  utimesSync(join(repository, "package-lock.json"), 0, 0); // its tools are installed (scripts/setup.mjs)
  const packed = npm(repository, "pack", "--pack-destination", folder);
  assert.match(packed.stdout, /^weighbridge-0\.1\.0\.tgz$/m);
  // Where it installs from are folders of ours: npm needs no network for them.
  const dependencies = Object.fromEntries(["commander", "yaml", "koffi"].map((name) => [name, `file:${join(ROOT, "node_modules", name)}`]));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, dependencies }));
  npm(folder, "install", tarball, "--offline", "--ignore-scripts", "--no-audit", "--no-fund");
});

function npm(cwd: string, ...args: string[]): SpawnSyncReturns<string> {
  const ran = spawnSync("npm", args, { cwd, encoding: "utf8", timeout: DEADLINE_MS, env: { ...process.env, NODE_OPTIONS: "" } });
  assert.equal(ran.status, 0, ran.stdout + ran.stderr);
  return ran;
}

function run(node: string, ...args: string[]): SpawnSyncReturns<string> {
  return spawnSync(node, args, { cwd: folder, encoding: "utf8", timeout: DEADLINE_MS, env: { ...process.env, NODE_OPTIONS: "" } });
}

test("npm pack at the root makes what is published, and changes nothing there", () => {
  const left = globSync(["*", ".weighbridge/*", ".weighbridge/packed/*"], { cwd: repository }).filter((path) => path.endsWith(".tgz"));
  assert.deepEqual(left, []);
  for (const path of ["package.json", "README.md", ".npmrc"])
    assert.equal(readFileSync(join(repository, path), "utf8"), readFileSync(join(ROOT, path), "utf8"), path);
  const json = spawnSync("npm", ["pack", "--json"], { cwd: repository, encoding: "utf8", timeout: DEADLINE_MS });
  assert.notEqual(json.status, 0, "it would tell of the tarball that is replaced");
  assert.match(json.stderr, /npm run build && npm pack \.\/dist --json/);
});

test("npm pack from another folder puts the package there, too", () => {
  const elsewhere = temporaryDirectory("package-elsewhere");
  npm(elsewhere, "pack", repository);
  assert.deepEqual(readdirSync(elsewhere), [TARBALL]);
  assert.ok(statSync(join(elsewhere, TARBALL)).size > statSync(tarball).size / 2, "it is not the package");
  assert.ok(!existsSync(join(repository, TARBALL)));
});

test("what came is JavaScript with its source maps, types, the command, and the documents that users read", () => {
  const root = join(modules, "weighbridge");
  const files = globSync("**/*", { cwd: root, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) =>
      join(entry.parentPath, entry.name)
        .slice(root.length + 1)
        .replaceAll("\\", "/"),
    );
  const kinds: Readonly<Record<string, RegExp>> = {
    root: /^(package\.json|README\.md|LICENSE|CHANGELOG\.md)$/,
    command: /^bin\/weighbridge\.mjs$/,
    library: /^lib\/[\w-]+\.js(\.map)?$/,
    types: /^types\/[\w/-]+\.d\.ts$/,
    documents: /^(docs\/[\w-]+\.(md|svg)|docs\/guides\/[\w-]+\.md|spec\/(consistency|checkpoint|codecs)\.md|bench\/RESULTS\.md)$/,
    examples: /^examples\/(README\.md|[\w-]+\/[\w-]+\.(md|ts|svg))$/,
    templates: /^templates\//,
  };
  const other = files.filter((path) => !Object.values(kinds).some((kind) => kind.test(path)));
  assert.deepEqual(other, []);
  for (const [kind, pattern] of Object.entries(kinds))
    assert.ok(kind === "templates" || files.some((path) => pattern.test(path)), `there are no files of the kind ${kind}`);
  assert.deepEqual(
    files.filter((path) => /\.test\.|modules\.js/.test(path)),
    [],
  );
  for (const [directory, expected] of Object.entries(PUBLISHED)) {
    const came = files.filter((path) => path.startsWith(`${directory}/`)).map((path) => path.slice(directory.length + 1));
    assert.deepEqual(came.toSorted(), expected.toSorted(), directory);
  }
  assert.ok(files.length < 700, `${files.length} files`);
  for (const path of files.filter((name) => name.endsWith(".js.map"))) {
    const { sources } = JSON.parse(readFileSync(join(root, path), "utf8")) as { readonly sources: readonly string[] };
    for (const source of sources)
      assert.match(source, /^\.\.\/(src\/|package\.json$)/, `${path}: packages of others stay out of the bundle`);
  }
});

test("its manifest names ranges, types before all else, and nothing of the repository: no scripts, no tools, no builds of Node, no sources", () => {
  const manifest = JSON.parse(readFileSync(join(modules, "weighbridge/package.json"), "utf8"));
  for (const key of ["private", "scripts", "devDependencies", "files"]) assert.ok(!(key in manifest), key);
  for (const ranges of [manifest.dependencies, manifest.optionalDependencies, manifest.peerDependencies])
    for (const [name, range] of Object.entries(ranges)) assert.match(String(range), /^\^\d/, name);
  assert.deepEqual(Object.keys(manifest.exports).toSorted(), PUBLISHED_DOORS);
  for (const [door, target] of Object.entries(manifest.exports)) {
    if (door === "./package.json") continue;
    assert.deepEqual(Object.keys(target as object), ["types", "default"], door);
    for (const path of Object.values(target as object)) assert.ok(existsSync(join(modules, "weighbridge", path)), `${door}: ${path}`);
  }
  for (const path of manifest.sideEffects) assert.ok(existsSync(join(modules, "weighbridge", path)), path);
});

test("publint and attw find nothing wrong with the tarball", () => {
  const tools = join(ROOT, "node_modules/.bin");
  for (const [tool, ...args] of [
    ["publint", "--strict"],
    ["attw", "--profile", "esm-only", "--no-color"],
  ] as const) {
    const checked = spawnSync(join(tools, tool), [tarball, ...args], { cwd: folder, encoding: "utf8", timeout: DEADLINE_MS });
    assert.equal(checked.status, 0, checked.stdout + checked.stderr);
  }
});

/** The bytes that a program of this text has at its start, bundled and minified with the package. */
async function bundledSize(text: string): Promise<number> {
  const entry = join(folder, "bundled.mjs");
  writeFileSync(entry, text);
  const bundled = await rolldown({ input: entry, platform: "node", external: ["koffi", "yaml"] });
  const { output } = await bundled.generate({ format: "esm", minify: true });
  await bundled.close();
  const chunks = new Map(output.flatMap((file) => (file.type === "chunk" ? [[file.fileName, file]] : [])));
  const loaded = new Set(output.filter((file) => file.type === "chunk" && file.isEntry).map(({ fileName }) => fileName));
  for (const name of loaded) for (const imported of chunks.get(name)?.imports ?? []) if (chunks.has(imported)) loaded.add(imported);
  return [...loaded].reduce((sum, name) => sum + Buffer.byteLength(chunks.get(name)?.code ?? ""), 0);
}

test("a program that asks what an error is bundles to 20 KB, and one that connects to 450 KB", async (t) => {
  const error = await bundledSize(`import { isWeighbridgeError } from "weighbridge";\nconsole.log(isWeighbridgeError(1));`);
  const connect = await bundledSize(`import { connect } from "weighbridge";\nconsole.log(await connect());`);
  t.diagnostic(`${error} and ${connect} bytes`);
  assert.ok(error > 100 && error <= SIZE_MAX.error, `${error} bytes`);
  assert.ok(connect > 100_000 && connect <= SIZE_MAX.connect, `${connect} bytes`);
});

/** Each frame of the package in this text is a line of its sources that calls or throws. */
function assertSourceLines(text: string): void {
  const frames = [...text.matchAll(/weighbridge\/(src\/\S+\.ts):(\d+):\d+/g)];
  assert.ok(frames.length > 0, text);
  assert.doesNotMatch(text, /weighbridge\/lib/);
  for (const [, path = "", line] of frames) {
    const found = readFileSync(join(ROOT, path), "utf8").split("\n")[Number(line) - 1] ?? "";
    assert.match(found, /\(|throw/, `${path}:${line}`);
  }
}

test("a stack that the command prints leads to lines of the sources", () => {
  writeFileSync(join(folder, "bad.mjs"), `import { start } from "weighbridge/node";\nawait start({ role: "nobody" });\n`);
  const command = join(modules, "weighbridge/bin/weighbridge.mjs");
  const ran = run(process.execPath, command, "worker", "--verbose", "--scheduler-port", "1", "--", "bad.mjs");
  assertSourceLines(ran.stderr);
  const brief = run(process.execPath, command, "worker", "-s", "1", "-w", "1", "--scheduler-port", "1", "--", "bad.mjs");
  assert.match(brief.stderr, /\(bad\.mjs:2:7\)\n$/, "without its stack, an error names the line of the script");
});

test("a stack of a user's program leads to its own line, and with --enable-source-maps to lines of the sources, as a guide says", () => {
  writeFileSync(join(folder, "wrong.mjs"), `import { connect } from "weighbridge";\n\nawait connect({ nonsense: 1 });\n`);
  const plain = run(process.execPath, "wrong.mjs");
  assert.match(plain.stderr, /weighbridge\/lib\/[\w-]+\.js:\d+:\d+/);
  const mapped = run(process.execPath, "--enable-source-maps", "wrong.mjs");
  assertSourceLines(mapped.stderr);
  for (const { stderr } of [plain, mapped]) assert.match(stderr, /\/wrong\.mjs:3:7/);
  assert.match(readFileSync(join(modules, "weighbridge/docs/guides/install.md"), "utf8"), /node --enable-source-maps/);
});

test("bench, which the package lacks, says so, and explains itself", () => {
  const bench = (...flags: readonly string[]): SpawnSyncReturns<string> =>
    run(process.execPath, join(modules, "weighbridge/bin/weighbridge.mjs"), "bench", ...flags);
  for (const flag of ["--help", "-h", "--help-all"]) assert.match(bench(flag).stdout, /^Usage: weighbridge bench/);
  assert.match(bench().stderr, /^weighbridge: UNSUPPORTED: the bench is part of the repository/);
});

test("the built package runs a cluster from a node_modules folder", () => {
  writeFileSync(join(folder, "script.mjs"), SCRIPT);
  const command = join(modules, "weighbridge/bin/weighbridge.mjs");
  const ran = run(process.execPath, command, "launch", "-s", "1", "-w", "1", "--", "script.mjs");
  assert.equal(ran.status, 0, ran.stdout + ran.stderr);
  assert.match(ran.stdout, /pulled 3,4 function/);
});

test("the types of every door hold in a project without the browser's, and with the libraries checked", () => {
  mkdirSync(join(modules, "@types"), { recursive: true });
  symlinkSync(join(ROOT, "node_modules/@types/node"), join(modules, "@types/node"));
  const { exports } = JSON.parse(readFileSync(join(modules, "weighbridge/package.json"), "utf8"));
  const doors = Object.keys(exports).filter((door) => door !== "./package.json");
  const imports = doors.map((door, i) => `import * as door${i} from "weighbridge${door.slice(1)}"; void door${i};`);
  writeFileSync(join(folder, "types.mts"), imports.join("\n"));
  const options = [
    "--module",
    "nodenext",
    "--target",
    "es2024",
    "--lib",
    "es2024,esnext.disposable",
    "--types",
    "node",
    "--strict",
    "--noEmit",
  ];
  const checked = run(process.execPath, join(ROOT, "node_modules/typescript/bin/tsc"), ...options, "types.mts");
  assert.equal(checked.stdout, "");
  assert.equal(checked.status, 0, checked.stderr);
});

test("the doors of other frameworks open without them, and npm does not ask for them", () => {
  writeFileSync(
    join(folder, "adapters.mjs"),
    `import { psOptimizer } from "weighbridge/tfjs"; import { PsParameters } from "weighbridge/jax"; console.log(typeof psOptimizer, typeof PsParameters);`,
  );
  const ran = run(process.execPath, "adapters.mjs");
  assert.equal(ran.stdout, "function function\n", ran.stderr);
  const manifest = JSON.parse(readFileSync(join(modules, "weighbridge/package.json"), "utf8"));
  const optional = Object.keys(manifest.peerDependencies).filter((name) => manifest.peerDependenciesMeta[name]?.optional === true);
  assert.deepEqual(optional, ["@jax-js/jax", "@tensorflow/tfjs-core"]);
});

for (const door of [
  "weighbridge",
  "weighbridge/embedded",
  "weighbridge/kv",
  "weighbridge/tfjs",
  "weighbridge/jax",
  "weighbridge/node",
  "weighbridge/testing",
]) {
  test(`${door} says in one line that Node is too old`, {
    skip: oldNode === undefined ? "there is no Node before 24 on this machine to try it with" : false,
  }, () => {
    writeFileSync(join(folder, "door.mjs"), `import(${JSON.stringify(door)}).catch((error) => console.log(error.stack));`);
    assert.match(
      run(String(oldNode), "door.mjs").stdout,
      /^Error: weighbridge needs Node 24 or newer; this is Node [\d.]+ at \/.*\. Install it, or run `npm install node@24` .*\n$/,
    );
  });
}

test("every link of every page in the package leads to a file in the package, and to no place on this machine", () => {
  const root = join(modules, "weighbridge");
  const pages = globSync("**/*.md", { cwd: root });
  assert.ok(pages.includes("README.md") && pages.some((page) => page.startsWith("docs")), pages.join());
  let links = 0;
  for (const page of pages) {
    for (const [, path = ""] of readFileSync(join(root, page), "utf8").matchAll(/\]\((?!https?:)([^)#\s]+)(?:#[^)\s]+)?\)/g)) {
      const target = join(dirname(page), path);
      assert.ok(!target.startsWith("..") && existsSync(join(root, target)), `${page} links to ${path}`);
      links++;
    }
  }
  assert.ok(links > 50, `${links} links`);
});

test("every file that a help text of the package names is in the package, or the reader's own", () => {
  const command = join(modules, "weighbridge/bin/weighbridge.mjs");
  const commands = ["", "train", "launch", "server", "checkpoint save"];
  for (const name of commands) {
    const { stdout, stderr } = run(process.execPath, command, ...name.split(" ").filter((word) => word !== ""), "--help");
    assert.match(stdout, /^Usage: weighbridge/, stderr);
    for (const [path] of stdout.matchAll(/(?<![\w./-])[\w.-]+\/[\w./-]+\.(?:ts|md|mjs|js|json|yaml)\b/g))
      assert.ok(existsSync(join(modules, "weighbridge", path)), `weighbridge ${name} --help names ${path}`);
  }
});

test("koffi, which makes servers faster, is an optional dependency of the package, and a guide says what it brings", () => {
  const manifest = JSON.parse(readFileSync(join(modules, "weighbridge/package.json"), "utf8"));
  const ours = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  assert.deepEqual(manifest.optionalDependencies, { koffi: ours.optionalDependencies.koffi });
  assert.match(readFileSync(join(modules, "weighbridge/docs/guides/install.md"), "utf8"), /koffi .*1\.3 times as fast/s);
});

test("under Bun and Deno the command hands over to Node, and without one says so in one sentence", () => {
  const command = join(modules, "weighbridge/bin/weighbridge.mjs");
  const as = (versions: object, path: string): SpawnSyncReturns<string> => {
    const pretence = `Object.defineProperty(process, "versions", { value: { ...process.versions, ...${JSON.stringify(versions)} } })`;
    const args = ["--import", `data:text/javascript,${encodeURIComponent(pretence)}`, command, "--version"];
    return spawnSync(process.execPath, args, {
      cwd: folder,
      encoding: "utf8",
      timeout: DEADLINE_MS,
      env: { ...process.env, NODE_OPTIONS: "", PATH: path },
    });
  };
  assert.match(as({ bun: "1.4.4" }, dirname(process.execPath)).stdout, /^\d+\.\d+\.\d+\n$/);
  const refused = as({ deno: "2.9.6" }, folder);
  assert.match(refused.stderr, /^weighbridge needs Node 24 or newer; this is Deno 2\.9\.6 at .* install Node 24\.\n$/);
  assert.equal(refused.status, 1);
});
