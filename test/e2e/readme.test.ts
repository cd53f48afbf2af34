// readme — Goal: every command and script of README runs as it is printed there, in a project as `npm init -y` makes
// it. What needs other machines says so above its block, is listed here, and runs with loopback instead of their names.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { BUILD, Processes, ROOT, type Running, until } from "./processes.ts";

const README = readFileSync(join(ROOT, "README.md"), "utf8");
const LINES_MAX = 150;
const WORDS_MAX = 25;

type Block = { readonly language: string; readonly text: string; readonly notRun: string | undefined };
const BLOCKS: readonly Block[] = [...README.matchAll(/(?:<!-- not run: (.*?) -->\n\n)?```(\w+)\n(.*?)```/gs)].map(
  ([, notRun, language = "", text = ""]) => ({ language, text, notRun }),
);

/** Run by other tests, each named by its file and by what it does: they set up a machine, or install the package. */
const RUN_ELSEWHERE: Readonly<Record<string, readonly [file: string, text: string]>> = {
  "npm start": ["test/e2e/train-command.test.ts", 'test("npm start reads at least'],
  "npm test": ["scripts/check.mjs", "what `npm test` runs"],
  "npm pack": ["test/e2e/package.test.ts", 'npm(repository, "pack"'],
  "npm install ../weighbridge/weighbridge-0.1.0.tgz": ["test/e2e/package.test.ts", 'npm(folder, "install", tarball'],
};

/** The commands of a block, without what is said behind them. */
function commandsOf({ text }: Block): readonly string[] {
  return text
    .split("\n")
    .map((line) => line.replace(/\s+#.*$/, "").trim())
    .filter((line) => line !== "");
}

function scripts(): readonly (readonly [name: string, text: string])[] {
  return BLOCKS.filter(({ language, notRun }) => language === "ts" && notRun === undefined).map(({ text }) => {
    const name = /^\/\/ ([\w-]+\.ts)\b/.exec(text)?.[1];
    assert.ok(name !== undefined, `a script begins with its file's name: ${text.slice(0, 60)}`);
    return [name, text] as const;
  });
}

/** An empty project that has installed the package, with the scripts of README. */
class Project extends Processes {
  readonly path: string = temporaryDirectory("readme");

  constructor() {
    super();
    const modules = join(this.path, "node_modules");
    mkdirSync(join(modules, "@types"), { recursive: true });
    symlinkSync(BUILD ?? ROOT, join(modules, "weighbridge"));
    symlinkSync(join(ROOT, "node_modules/@types/node"), join(modules, "@types/node"));
    writeFileSync(join(this.path, "package.json"), JSON.stringify({ name: "project", version: "1.0.0", type: "commonjs" }));
    for (const [name, text] of scripts()) writeFileSync(join(this.path, name), text);
  }

  /** Runs a command as README prints it; `env` as well. */
  start(command: string, env: Readonly<Record<string, string>> = {}): Running {
    const [program = "", ...words] = command.split(/\s+/);
    if (program === "npm") return this.run("npm", words, { cwd: this.path, env });
    assert.deepEqual([program, words[0]], ["npx", "weighbridge"], `${command}: run by no test`);
    return this.weighbridge(words.slice(1), { cwd: this.path, env });
  }

  /** Repeats a command until it succeeds, while `job` runs. */
  async succeedsWhile(job: Running, command: string): Promise<Running> {
    for (;;) {
      const running = this.start(command);
      const { code } = await running.ends();
      if (code === 0) return running;
      assert.ok(job.isRunning, `${running.transcript}\n${job.transcript}`);
    }
  }
}

/** The commands of the blocks that begin with this one. */
function commandsFrom(start: string): readonly string[] {
  const block = BLOCKS.find(({ language, text }) => language === "sh" && text.startsWith(start));
  assert.ok(block !== undefined, `no block begins with ${start}`);
  return commandsOf(block);
}

/** Each worker of the script has found what it looks for. */
function assertTrained(workers: readonly Running[], count: number): void {
  const found = workers.flatMap(({ stdout }) => [...stdout.matchAll(/worker \d: (\S+)$/gm)].map(([, value]) => Number(value)));
  assert.equal(found.length, count, workers.map(({ transcript }) => transcript).join("\n"));
  for (const value of found) assert.ok(Math.abs(value - 3) < 0.5, `${value}`);
}

test("README has at most 150 lines, and sentences of at most 25 words", () => {
  assert.ok(README.split("\n").length <= LINES_MAX + 1, `${README.split("\n").length} lines`);
  const prose = README.replaceAll(/```.*?```/gs, "")
    .replaceAll(/<!--.*?-->/gs, "")
    .replaceAll(/^\|.*$/gm, "")
    .replaceAll(/\]\([^)]*\)/g, "]");
  for (const paragraph of prose.split(/\n\s*\n|\n(?=[-#>])/))
    for (const sentence of paragraph.split(/(?<=[.?!]\**)\s+/)) {
      const words = sentence.split(/\s+/).filter((word) => /\w/.test(word));
      assert.ok(words.length <= WORDS_MAX, `${words.length} words: ${sentence}`);
    }
});

test("what README does not run is listed, with the reason", () => {
  const listed = BLOCKS.filter(({ notRun }) => notRun !== undefined).map(({ notRun, language }) => `${language}: ${notRun}`);
  assert.deepEqual(listed, ["sh: needs other machines"]);
});

test("what another test runs is run there", () => {
  for (const [command, [file, text]] of Object.entries(RUN_ELSEWHERE)) {
    assert.ok(README.includes(`\n${command} `), `README has no ${command} any more`);
    assert.ok(readFileSync(join(ROOT, file), "utf8").includes(text), `${command}: ${file}`);
  }
});

// They mostly wait: the script takes its time.
suite("what README prints", { concurrency: true }, () => {
  test("its first script runs in a project that its commands have set up, and says what its last line says", async () => {
    await using project = new Project();
    for (const command of commandsFrom("npm pack")) if (RUN_ELSEWHERE[command] === undefined) await project.start(command).succeeds();
    assert.ok(readdirSync(join(project.path, "my-service")).includes("main.ts"));
    const hello = project.run(process.execPath, ["hello.ts"], { cwd: project.path });
    await hello.succeeds();
    const values =
      hello.stdout
        .match(/\d+\.\d+|\d+/g)
        ?.slice(-4)
        .map(Number) ?? [];
    assert.equal(values.length, 4, hello.transcript);
    for (const value of values) assert.ok(Math.abs(value - 1) < 0.05, hello.transcript);
  });

  test("its cluster trains, and the commands of the other terminal see and scale it meanwhile", async () => {
    await using project = new Project();
    await project.start("npm pkg set type=module").succeeds();
    const [launch = "", ...rest] = commandsFrom("npx weighbridge launch");
    assert.deepEqual(rest, []);
    const job = project.start(launch);
    // Without this file the commands would look for a job at the default port, where another test may have one.
    await until(() => existsSync(join(project.path, ".weighbridge/job.json")), "the record of the job");
    const seen: Running[] = [];
    for (const command of commandsFrom("npx weighbridge status")) seen.push(await project.succeedsWhile(job, command));
    assert.deepEqual(
      seen.map(({ stdout }) => /of 4 workers|^w: tensor of f32, 128$|^6 workers$/m.exec(stdout)?.[0]),
      ["of 4 workers", "w: tensor of f32, 128", "6 workers"],
      seen.map(({ transcript }) => transcript).join("\n"),
    );
    await job.succeeds();
    assertTrained([job], 6);
  });

  test("its commands for several machines make a cluster, also where all have the address of loopback", async () => {
    await using project = new Project();
    await project.start("npm pkg set type=module").succeeds();
    const env = { WEIGHBRIDGE_SCHEDULER_PORT: String(await freePort("127.0.0.1")) };
    const commands = commandsFrom("npx weighbridge scheduler").map((command) => command.replaceAll(/[\w-]+\.example/g, "127.0.0.1"));
    const [scheduler, ...nodes] = commands.map((command) =>
      Array.from({ length: / scheduler /.test(command) ? 1 : 2 }, () => project.start(command, env)),
    );
    await Promise.all([scheduler, ...nodes].flatMap((running = []) => running.map((one) => one.succeeds())));
    assertTrained(nodes[1] ?? [], 2);
  });

  test("the types of its scripts hold, with the compiler options that the templates have", {
    skip: BUILD === undefined ? "the sources have options of their own" : false,
  }, async () => {
    await using project = new Project();
    await project.start("npm pkg set type=module").succeeds();
    const [tsc, config] = ["node_modules/typescript/bin/tsc", "templates/project/tsconfig.json"].map((path) => join(ROOT, path));
    writeFileSync(join(project.path, "tsconfig.json"), readFileSync(String(config)));
    await project.run(process.execPath, [String(tsc), "-p", "."], { cwd: project.path }).succeeds();
  });

  test("every command is in a block that a test runs", () => {
    const run = ["npm pack", "npx weighbridge launch", "npx weighbridge status", "npx weighbridge scheduler"].flatMap(commandsFrom);
    const all = BLOCKS.filter(({ language }) => language === "sh").flatMap(commandsOf);
    assert.deepEqual(
      all.filter((command) => !run.includes(command) && RUN_ELSEWHERE[command] === undefined),
      [],
    );
  });
});
