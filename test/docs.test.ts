// docs — Goal: what README, ARCHITECTURE, guides, examples and the table of compatibility name is there: files, links,
// flags, imports, members, error codes. Not for whether the sentences around them are true; the guides' scripts are run
// by e2e/guide.test.ts.

import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { COMMAND_NAMES } from "../src/cli/commands.ts";
import { describeKeys } from "../src/node/config/describe-keys.ts";
import { DOORS } from "./support/doors.ts";

const root = join(import.meta.dirname, "..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const PAGES: readonly string[] = [
  ...["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"],
  ...globSync(["docs/*.md", "docs/guides/*.md", "examples/README.md", "examples/*/README.md", "spec/*.md"], { cwd: root }).map((path) =>
    path.replaceAll("\\", "/"),
  ),
];
/** Flags of other programs, that commands in the pages have. */
const FOREIGN_FLAGS: ReadonlySet<string> = new Set(["--test", "--quick", "--omit", "--enable-source-maps"]);
/** So many characters fill a line of README's picture (scripts/record-demo.ts). */
const DEMO_COLUMNS = 92;
/** Where what a page calls so is described. */
const SOURCES: Readonly<Record<string, readonly string[]>> = {
  session: ["src/api/session.ts"],
  office: ["src/faces/kv/postoffice.ts"],
  worker: ["src/faces/tensors/tensor-worker.ts"],
  kv: ["src/faces/kv/kv-worker.ts"],
  server: ["src/faces/kv/kv-server.ts", "src/contracts/function-context.ts"],
  model: ["src/faces/training/model.ts", "src/faces/shared-model/shared-model.ts"],
};

function eachMatch(pattern: RegExp, check: (match: RegExpExecArray, page: string) => void): void {
  let count = 0;
  for (const page of PAGES) {
    for (const match of read(page).matchAll(pattern)) {
      check(match, page);
      count++;
    }
  }
  assert.ok(count > 0, `${pattern} finds nothing any more`);
}

/** What GitHub makes of a heading. */
function anchorsOf(page: string): string[] {
  return [...read(page).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}_ -]/gu, "")
      .replaceAll(" ", "-"),
  );
}

test("every link leads to a file that is there, and to a heading that it has", () => {
  eachMatch(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g, ([, path = "", anchor], page) => {
    const target = path === "" ? page : join(dirname(page), path).replaceAll("\\", "/");
    assert.ok(existsSync(join(root, target)), `${page}: there is no ${target}`);
    if (anchor !== undefined) assert.ok(anchorsOf(target).includes(anchor), `${page}: ${target} has no heading #${anchor}`);
  });
});

test("every file and folder of the repository that is named in passing is there", () => {
  eachMatch(/`((?:src|kernels|bench|test|spec|docs|examples|scripts)\/[\w./*-]+)`/g, ([, path = ""], page) => {
    if (path.includes("NAME") || path.includes("NNNN")) return; // stands for any
    const isThere = globSync([path, `${path}.ts`, `${path}-*.md`], { cwd: root }).length > 0;
    assert.ok(isThere, `${page}: there is no ${path}`);
  });
});

test("every file that ARCHITECTURE names by its room is there", () => {
  const rooms = globSync("src/*", { cwd: root }).map((path) => path.replaceAll("\\", "/").slice("src/".length));
  const named = [...read("ARCHITECTURE.md").matchAll(/`([a-z]+(?:-[a-z]+)*)\/([\w/-]+)`/g)].filter(([, room = ""]) => rooms.includes(room));
  assert.ok(named.length > 20, "it names fewer files than it did");
  for (const [, room, path] of named) {
    const found = ["", ".ts"].some((ending) => existsSync(join(root, "src", `${room}/${path}${ending}`)));
    assert.ok(found, `ARCHITECTURE.md: there is no src/${room}/${path}`);
  }
});

test("ARCHITECTURE says where an optimizer, a row type, a function, a face, a transport, a command and a key are added, by files that are there", () => {
  const section = sectionOf("ARCHITECTURE.md", "Where do I add …");
  for (const what of ["An optimizer", "A row type", "A function", "A face", "A transport", "A command", "A key of the configuration"])
    assert.ok(section.includes(`**${what}**`), what);
  const named = [...section.matchAll(/`([\w.-]+(?:\/[\w.-]+)+)`/g)].map(([, path = ""]) => path);
  assert.ok(named.length > 30, "it names fewer files than it did");
  for (const path of named) {
    const found = ["", ".ts"].some(
      (ending) => existsSync(join(root, `${path}${ending}`)) || existsSync(join(root, "src", `${path}${ending}`)),
    );
    assert.ok(found, `ARCHITECTURE.md: there is no ${path}`);
  }
});

test("the table of commands has every command, and no other", () => {
  const cells = [...read("docs/command.md").matchAll(/^\| (`weighbridge .*?) +\|/gm)].map(([, cell = ""]) => cell);
  const words = cells.flatMap((cell) => [...cell.matchAll(/`(?:weighbridge )?([\w-]+)/g)].map(([, word]) => word));
  const missing = COMMAND_NAMES.filter((name) => !words.includes(name));
  assert.deepEqual(missing, [], "docs/command.md does not name them");
  const named = cells.map((cell) => /^`weighbridge ([\w-]+)/.exec(cell)?.[1] ?? cell);
  const unknown = named.filter((name) => !COMMAND_NAMES.includes(name));
  assert.deepEqual(unknown, [], "there are no such commands");
});

test("the indexes lead to every guide, every page of docs and of the specification, and every example", () => {
  const documents = globSync(["docs/*.md", "docs/guides/*.md", "spec/*.md"], { cwd: root });
  const examples = [...new Set(globSync("examples/*/*.{md,ts}", { cwd: root }).map((path) => dirname(path)))];
  for (const [index, targets] of [["docs/README.md", documents] as const, ["examples/README.md", examples] as const]) {
    const linked = [...read(index).matchAll(/\]\(([^)#\s]+)/g)].map(([, path = ""]) => join(dirname(index), path));
    assert.ok(targets.length > 10);
    assert.deepEqual(
      targets.filter((target) => !linked.includes(target) && target.replaceAll("\\", "/") !== index),
      [],
      `${index} does not lead there`,
    );
  }
});

test("the package is described by README's first line", () => {
  const [, line] = /^\*\*(.*)\*\*$/m.exec(read("README.md")) ?? [];
  assert.equal((JSON.parse(read("package.json")) as { readonly description: string }).description, line);
});

test("README names every door of the package, and no other", () => {
  const named = [...sectionOf("README.md", "Which import").matchAll(/`(?:weighbridge)?(\/[\w-]+)?`/g)].map(([, door = ""]) => `.${door}`);
  assert.deepEqual(named.toSorted(), Object.keys(DOORS).toSorted());
});

test("what README says was measured is what the page of results says", () => {
  const [, claim = ""] = /\| ps-lite \| ratio \|\n.*?\n(.*?)\n\n/s.exec(read("README.md")) ?? [];
  const rows = claim.split("\n").map((row) => /\| +([\d,]+) \| +([\d,]+) \| +(\d+\.\d\d) \|$/.exec(row) ?? assert.fail(row));
  const [, measured = ""] = /\*\*Beside ps-lite\*\*(.*?)\n\n/s.exec(read("bench/RESULTS.md")) ?? [];
  assert.ok(rows.length >= 4);
  for (const [, ours, theirs, ratio] of rows)
    assert.match(measured, new RegExp(`\\b${ours} / ${theirs}( req/s)?,\\s+(\\*\\*)?${ratio}\\b`), `README says ${ratio} times`);

  const broken = sectionOf("README.md", "Measured");
  const results = sectionOf("bench/RESULTS.md", "Servers that die, move and come back");
  for (const [said, found] of [
    [/^\| 1,000 simulated jobs.*nothing lost, nothing counted twice/m, /^\| 1,000 simulated jobs.*nothing lost or doubled/m],
    [
      /^\| 200 `kill -9` and 56 SIGSTOP.*nothing lost, the same bits/m,
      /^\| 200 SIGKILLs and 56 SIGSTOPs.*nothing lost, doubled or computed/m,
    ],
    [/killed, 30 times +\| median 25 ms, longest 49 ms/, /head killed, 30 times.*p50 25, p90 39, longest 49 ms/],
  ] as const) {
    assert.match(broken, said);
    assert.match(results, found);
  }
});

test("README's picture shows that a server is killed and the training goes on, in whole lines, and stands still where animation is off", () => {
  const picture = read("docs/demo.svg");
  const lines = [...picture.matchAll(/<text[^>]*>([^<]*)<\/text>/g)].map(([, line = ""]) => line);
  const order = [
    /^\$ npx weighbridge train lenet /,
    /^\$ kill -9 \d+ /,
    /taken over by its standby/,
    /step: \d+, loss is/,
    /✓ \d+ steps in/,
    /accuracy/,
  ];
  let from = 0;
  for (const pattern of order) {
    const at = lines.findIndex((line, i) => i >= from && pattern.test(line));
    assert.ok(at >= 0, `it shows no ${pattern} after line ${from}`);
    from = at + 1;
  }
  for (const line of lines) assert.ok(line.length < DEMO_COLUMNS, `cut off: ${line}`);
  assert.match(picture, /@media \(prefers-reduced-motion: reduce\) \{ text \{ animation: none; \} \}/);
});

test("every flag is one of the command's", () => {
  const own = globSync("src/cli/**/*.ts", { cwd: root }).flatMap((path) => [...read(path).matchAll(/"(?:-\w, )?--[^"]*"/g)].map(String));
  const known = [...own, ...describeKeys().map(({ flag }) => flag)].flatMap((flags) => [...flags.matchAll(/--[a-z][a-z-]*/g)].map(String));
  eachMatch(/(?<=[\s`(])--[a-z][a-z-]+/g, ([flag = ""], page) => {
    assert.ok(known.includes(flag) || FOREIGN_FLAGS.has(flag), `${page}: the command has no ${flag}`);
  });
});

test("every name that a script imports is exported by its door", () => {
  eachMatch(/^import \{([^}]*)\} from "weighbridge(\/[\w-]+)?";/gm, ([, names = "", door = ""], page) => {
    const source = DOORS[`.${door}`];
    assert.ok(source !== undefined, `${page}: there is no door weighbridge${door}`);
    for (const name of names.split(",").map((entry) => entry.replace(/^\s*type /, "").trim())) {
      if (name !== "") assert.match(read(source), new RegExp(`\\b${name}\\b`), `${page}: weighbridge${door} exports no ${name}`);
    }
  });
});

test("every member of a session, an office, a worker, a server or a model is one", () => {
  eachMatch(
    /(?<![\w./-])(session|office|worker|kv|model|server)\.(?!js|ts|safetensors)([a-zA-Z]+)/g,
    ([, object = "", member = ""], page) => {
      if (object === "model" && page.endsWith("adapters.md")) return; // TensorFlow.js's
      const declaration = new RegExp(`^ {2}(?:(?:readonly|get|async|static) )*${member}\\b[?(:<=]?`, "m");
      assert.ok(
        SOURCES[object]?.some((path) => declaration.test(read(path))),
        `${page}: ${object}.${member}`,
      );
    },
  );
});

test("every error code is one of ours", () => {
  const codes = new Set([...read("src/base/errors.ts").matchAll(/^\s+(?:\| )?"?([A-Z][A-Z_]+)"?/gm)].map(([, code]) => code));
  const guides = PAGES.filter((page) => page.startsWith("docs/guides/"))
    .map(read)
    .join("\n");
  for (const [, code = ""] of guides.matchAll(/`([A-Z]+(?:_[A-Z]+)+)`/g))
    if (!/^(DMLC|PS|MS|WEIGHBRIDGE|USE|WORKER|SERVER)_/.test(code)) assert.ok(codes.has(code), `the guides name ${code}`);
});

test("no page, example or help text names an address that could be dialed: hosts are loopback, or names under .example", () => {
  const texts = globSync(["*.md", "docs/**/*.md", "spec/*.md", "bench/*.md", "examples/**/*.{md,ts}", "src/cli/**/*.ts", "bin/*"], {
    cwd: root,
  });
  let hosts = 0;
  for (const path of texts.filter((file) => !file.includes("node_modules") && !file.endsWith(".test.ts"))) {
    const text = read(path);
    for (const [address] of text.matchAll(/(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?!\.?\d)/g))
      assert.match(address, /^(127\.|0\.0\.0\.0$)/, `${path} names ${address}: use a name under .example`);
    for (const [, host = ""] of text.matchAll(/(?:_URI=|_HOST=|-host |[hH]ost: )"?([\w-]+(?:\.[\w-]+)+)/g)) {
      assert.match(host, /^127\.|^0\.0\.0\.0$|\.example$/, `${path} names ${host}: use a name under .example`);
      hosts++;
    }
  }
  assert.ok(hosts > 5, "it finds the hosts of the pages no more");
});

test("the program of the guide to a service is the tested example, letter by letter", () => {
  const program = /```ts\n(\/\/ 09-online-service .*?)```/s.exec(read("docs/guides/online-service.md"))?.[1];
  assert.equal(program, read("examples/09-online-service/main.ts"));
});

test("a guide says of learning rates, for each kind of optimizer, what SSP and ASP ask of them, and the guide to consistency leads there", () => {
  const section = sectionOf("docs/guides/train-your-own-model.md", "Learning rates under SSP and ASP");
  for (const optimizer of ["sgd", "momentum", "adam"])
    assert.match(section, new RegExp(`^- \\*\\*${optimizer}\\*\\*.*rate`, "m"), optimizer);
  assert.match(section, /^\| optimizer .*"bsp".*ssp.*"asp"/m, "what was measured");
  assert.match(read("docs/guides/consistency.md"), /SSP and ASP need other learning rates .*#learning-rates-under-ssp-and-asp/);
});

test("the guide to vocabCacheSize says when it costs more than it brings, and how to see that", () => {
  const section = sectionOf("docs/guides/embedding-cache.md", "When it costs more than it saves");
  for (const one of [/Narrow rows/, /smaller than a batch/, /deviceHits \+ hostHits/]) assert.match(section, one);
});

test("the guide to training says that nothing overlaps by default, and what was measured", () => {
  assert.match(read("docs/guides/train-your-own-model.md"), /\*\*`overlap`\*\*, off by default: .*\n.*slower in every case we measured/);
});

test("commands that run a test of the repository run it with the Node that the repository pins: npx node", () => {
  eachMatch(/(\S+ )node --test/g, ([command, before = ""], page) => assert.equal(before, "npx ", `${page}: ${command}`));
});

test("the guide to ps-lite and the table of compatibility say that two customers in one C++ worker cannot work with PS_RESEND", () => {
  assert.match(read("docs/guides/move-a-ps-lite-job.md"), /Two customers in one C\+\+ worker cannot work with `PS_RESEND`/);
  assert.match(read("docs/compatibility.md"), /PS_RESEND.*two customers in one C\+\+ worker cannot work with it/);
});

/** What stands under a heading. */
function sectionOf(page: string, heading: string): string {
  const [, section] = read(page).split(`\n## ${heading}\n`);
  assert.ok(section !== undefined, `${page} has no heading ${heading}`);
  return section.split("\n## ")[0] ?? "";
}

test("each invariant of docs/decisions/0079 is cited by code and by tests", () => {
  const labels = [...read("docs/decisions/0079-what-holds-whoever-dies.md").matchAll(/^\| \*\*(I\d)\*\*/gm)].map(([, label]) => label);
  assert.deepEqual(
    labels,
    Array.from({ length: 8 }, (_, i) => `I${i + 1}`),
  );
  const files = globSync(["src/**/*.ts", "test/**/*.test.ts"], { cwd: root });
  const citing = (isTest: boolean): Set<string> =>
    new Set(
      files
        .filter((path) => path.endsWith(".test.ts") === isTest && !path.endsWith("docs.test.ts"))
        .flatMap((path) => [...read(path).matchAll(/Availability\.(I\d(?:(?:, | and )I\d)*)/g)])
        .flatMap(([, cited = ""]) => cited.match(/I\d/g) ?? []),
    );
  assert.deepEqual([...citing(false)].sort(), labels, "in code");
  assert.deepEqual([...citing(true)].sort(), labels, "in tests");
});
