// command-line — Goal: every command explains itself, and a command line that makes no sense is an error of its own
// kind.

import assert from "node:assert/strict";
import test from "node:test";
import type { Command } from "commander";
import type { Invocation } from "../../src/cli/command-parts.ts";
import { COMMAND_NAMES, COMMANDS as COMMAND_TABLE } from "../../src/cli/commands.ts";
import { StandardOutput } from "../../src/cli/standard-output.ts";
import { TASKS } from "../../src/cli/train/train-plan.ts";
import { describeKeys } from "../../src/node/config/describe-keys.ts";
import { Processes, type Running } from "./processes.ts";

/** The bench explains itself. */
const COMMANDS = COMMAND_NAMES.filter((name) => name !== "bench");

/** What a terminal shows that nobody has made larger. */
const SCREEN = { lines: 24, columns: 80 };

/** The words that name each command, and each one inside it. */
async function paths(): Promise<readonly (readonly string[])[]> {
  const invocation: Invocation = { output: new StandardOutput(process.stdout), exitCode: 0, isVerbose: false, words: [], isHelpAll: false };
  const inside = (command: Command, before: readonly string[]): readonly (readonly string[])[] => {
    const path = [...before, command.name()];
    return [path, ...command.commands.flatMap((inner) => inside(inner, path))];
  };
  const made = await Promise.all(COMMANDS.map(async (name) => inside((await COMMAND_TABLE[name]!())(invocation), [])));
  return made.flat();
}

test("--help explains the command on one screen, with an example, and leaves room for the prompt", async () => {
  await using processes = new Processes();
  const commands = await paths();
  assert.ok(
    commands.some((words) => words.join(" ") === "params show"),
    "those inside others are among them",
  );
  const all: { readonly words: readonly string[]; readonly help: Running }[] = [];
  for (const words of [[], ...commands]) {
    const help = processes.weighbridge([...words, "--help"]);
    all.push({ words, help });
    await help.succeeds();
    assert.match(help.stdout, new RegExp(`^Usage: ${["weighbridge", ...words].join(" ")}`));
    assert.match(help.stdout, /Examples?:\n {2}\$ weighbridge/);
    const lines = help.stdout.trimEnd().split("\n");
    assert.ok(lines.length < SCREEN.lines, `${words.join(" ")}: ${lines.length} lines`);
    for (const line of lines) assert.ok(line.length <= SCREEN.columns, `${words.join(" ")}: ${line}`);
  }
  assert.match(all[0]?.help.stdout ?? "", new RegExp(COMMANDS.join("[\\s\\S]*")));
});

test("--help-all has every key of the configuration that the command takes, and what --help has", async () => {
  await using processes = new Processes();
  const [launch, brief] = [processes.weighbridge(["launch", "--help-all"]), processes.weighbridge(["launch", "--help"])];
  await Promise.all([launch.succeeds(), brief.succeeds()]);
  const own = new Set(["role", "rank", "listenPort", "advertiseHost", "host", "nodeId", "schedulerPort"]);
  const flags = (text: string): string[] => [...text.matchAll(/^ {2}(?:-\w, )?(--[a-z][a-z-]*)/gm)].map(([, flag = ""]) => flag);
  const all = flags(launch.stdout);
  for (const { name, flag } of describeKeys())
    if (!own.has(name)) assert.ok(all.includes(/--[a-z][a-z-]*/.exec(flag)?.[0] ?? ""), `${name}: ${flag}`);
  for (const flag of flags(brief.stdout)) assert.ok(all.includes(flag), flag);
  assert.ok(all.length > 2 * flags(brief.stdout).length);
});

test("bench --help is the bench's own", async () => {
  await using processes = new Processes();
  for (const flag of ["--help", "-h", "--help-all"]) {
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
  const helps = ["lenet", "wide-deep", "mf", "logistic"].map((task) => processes.weighbridge(["train", task, "--help-all"]));
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
  [["checkpoint", "verify", "ckpt", "--json"], /^weighbridge: unknown option '--json'\n$/],
  [["params", "gett", "users"], /^weighbridge: params has no command 'gett'; there are list, show, get\n$/],
  [["train", "--sed", "1"], /unknown option '--sed'[\s\S]*Did you mean --seed/],
  [["status", "--scheduler-port"], /option '--scheduler-port <port>' argument missing/],
  [["worker", "-s", "1"], /missing required argument 'script'/],
  [["server", "--apps", "0,x"], /--apps <ids>.*0,x.*numbers from 0 to 65535/],
  [["train", "lenet", "--epochs", "none"], /whole number/],
  [["server", "--port", "1"], /^weighbridge: --port is now called --scheduler-port \(the scheduler's\), or --listen-port/],
  [["launch", "--worker-count", "2", "x.ts"], /^weighbridge: --worker-count is now called --workers\n$/],
  [["worker", "--start-timeout-ms", "2", "x.ts"], /--start-timeout-ms is now called --start-timeout, and takes a time with its unit/],
  [["scheduler", "-s", "1", "-w", "1", "--start-timeout", "2"], /--start-timeout \(command line\): expected a time with its unit/],
  [["scale", "--servers", "2", "--timeout", "5"], /Expected a time with its unit, such as 500ms, 60s or 5min/],
  [["train", "lenet", "--checkpoint-every", "5"], /a time such as 60s or 5min, .* or a number of steps such as 500steps/],
  [
    ["launch", "-w", "1", "--checkpoint-dir", "/tmp", "--checkpoint-every", "60", "x.ts"],
    /--checkpoint-every .*a number of steps such as 500steps/,
  ],
  [["launch", "-w", "1", "--resume", "ckpt", "x.ts"], /Write a directory behind "=", as --resume=ckpt, and what is to run behind "--"/],
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
