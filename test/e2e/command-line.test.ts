// command-line — Goal: every command explains itself, and a command line that makes no sense is an error of its own
// kind.

import assert from "node:assert/strict";
import test from "node:test";
import { COMMAND_NAMES } from "../../src/cli/main.ts";
import { TASKS } from "../../src/cli/train/train-plan.ts";
import { Processes } from "./processes.ts";

/** The bench explains itself. */
const COMMANDS = COMMAND_NAMES.filter((name) => name !== "bench");
const CHECKPOINT_COMMANDS = ["save", "restore", "inspect", "verify", "export"].map((command) => ["checkpoint", command]);

test("--help explains the command, with an example", async () => {
  await using processes = new Processes();
  const all = [[], ...COMMANDS.map((command) => [command]), ...CHECKPOINT_COMMANDS].map((words) => ({
    words,
    help: processes.weighbridge([...words, "--help"]),
  }));
  for (const { words, help } of all) {
    await help.succeeds();
    assert.match(help.stdout, new RegExp(`^Usage: ${["weighbridge", ...words].join(" ")}`));
    assert.match(help.stdout, /Examples?:\n {2}\$ weighbridge/);
  }
  assert.match(all[0]?.help.stdout ?? "", new RegExp(COMMANDS.join("[\\s\\S]*")));
});

test("bench --help is the bench's own", async () => {
  await using processes = new Processes();
  for (const flag of ["--help", "-h"]) {
    const help = processes.fromSources(["bench", flag]);
    await help.succeeds();
    assert.match(help.stdout, /--raw-only[\s\S]*Cases: push-4B-w1 /);
  }
});

test("the bench's own options that make no sense end with 2 as well", async () => {
  await using processes = new Processes();
  await processes.fromSources(["bench", "--nosuch"]).refuses(/^bench: Unknown option '--nosuch'/);
});

test("train explains its tasks with their defaults, and its exit codes", async () => {
  await using processes = new Processes();
  const helps = ["lenet", "wide-deep", "mf", "logistic"].map((task) => processes.weighbridge(["train", task, "--help"]));
  for (const help of helps) {
    await help.succeeds();
    for (const [name, { epochs, batchSize, learningRate, consistency }] of Object.entries(TASKS)) {
      const flags = `--epochs ${epochs} --batch-size ${batchSize} --learning-rate ${learningRate} --consistency ${consistency}`;
      assert.match(help.stdout, new RegExp(`^ {2}${name} (?:.*\\n {3,})+?${flags.replaceAll(" ", "\\s+")},\\s`, "m"));
    }
    for (const code of ["0", "1", "2", "130"]) assert.match(help.stdout, new RegExp(`^Exit codes:[\\s\\S]*^ {2}${code} +[a-zC]`, "m"));
  }
});

test("output that is read no more ends a command without a word, and a full disk with the reason", async () => {
  await using processes = new Processes();
  const [unread, full] = [processes.shell(["--help"], "| true"), processes.shell(["--help"], "> /dev/full")];
  assert.equal((await unread.ends()).code, 141, unread.transcript);
  assert.equal(unread.stderr, "");
  if (process.platform === "linux") await full.fails(/^weighbridge: standard output cannot be written: ENOSPC: .*\n$/);
});

test("--version is the package's", async () => {
  await using processes = new Processes();
  const version = processes.weighbridge(["--version"]);
  await version.succeeds();
  assert.match(version.stdout, /^\d+\.\d+\.\d+/);
});

for (const [args, message] of [
  [["lunch"], /unknown command 'lunch'[\s\S]*Did you mean launch/],
  [["status", "--scheduler-prt", "1"], /unknown option '--scheduler-prt'[\s\S]*Did you mean --scheduler-port/],
  [["status", "--scheduler-port"], /option '--scheduler-port <port>' argument missing/],
  [["worker", "-s", "1"], /missing required argument 'script'/],
  [["server", "--apps", "0,x"], /--apps <ids>.*0,x.*numbers from 0 to 65535/],
  [["train", "lenet", "--epochs", "none"], /whole number/],
  [["train", "lenett"], /no task "lenett" to train; did you mean lenet\? There are lenet, /],
  [
    ["launch", "-s", "1", "-w", "1", "--functions", "no-such.ts"],
    /BAD_CONFIG: there is no module no-such\.ts with functions \(looked for \/.*\)\n$/,
  ],
  [
    ["launch", "-s", "1", "-w", "1", "--restore", "/no/such"],
    /BAD_CONFIG: --restore: cannot read \/no\/such: there is no such file or directory\n$/,
  ],
] as const) {
  test(`exits with 2: weighbridge ${args.join(" ")}`, async () => {
    await using processes = new Processes();
    const running = processes.weighbridge(args);
    assert.equal((await running.ends()).code, 2, running.transcript);
    assert.match(running.stderr, message);
    assert.match(running.stderr, /^weighbridge: /);
    assert.doesNotMatch(running.stderr, /\n {4}at /, "no stack");
  });
}

test("a mistake in the configuration is told in a line; --verbose adds the stack", async () => {
  await using processes = new Processes();
  const brief = processes.weighbridge(["status", "--scheduler-port", "0"]);
  const verbose = processes.weighbridge(["status", "--scheduler-port", "0", "--verbose"]);
  await brief.refuses(/^weighbridge: BAD_CONFIG: 1 problem with the configuration:\n {2}1\. --scheduler-port.*\n$/);
  await verbose.refuses(/1 problem with[\s\S]*\n {4}at [\s\S]*BAD_CONFIG/);
});
