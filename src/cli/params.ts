// params — looks into a running job: which parameters it has, how much of one lies on which server, and some of its
// values. It changes nothing: a pull makes no row (TableStore.T2). `list` and `show` ask the scheduler alone, which
// passes calls on to the servers; `get` joins as a guest, and has to reach the servers itself.

import { Command, Option } from "commander";
import { WeighbridgeError } from "../base/errors.ts";
import { didYouMean } from "../base/nearest-name.ts";
import { catalogueList } from "../contracts/catalogue.ts";
import { parameterSize } from "../contracts/parameters.ts";
import { callJson } from "../peer/call-function.ts";
import { decodeParameterSpec, type ParameterSpec } from "../store/parameter-spec.ts";
import type { CatalogueEntry } from "../wire/catalogue.ts";
import { serverRanks } from "../wire/roster.ts";
import { type ClusterRequest, clusterRequest, type FoundScheduler, relayedCalls, withScheduler } from "./cluster-client.ts";
import { addClusterHelp } from "./cluster-flags.ts";
import { type Flags, type HelpTexts, type Invocation, timeOf } from "./command-parts.ts";
import {
  listText,
  type ParameterFields,
  parameterFields,
  parameterText,
  type ServerShare,
  valuesDocument,
  valuesText,
} from "./params-text.ts";
import { terminalColumns } from "./terminal-text.ts";

type ParamsFlags = Flags & { readonly json?: true; readonly string?: true; readonly timeout?: number };

const TIMEOUT_MS = 10_000;
const TIMEOUT_MS_MIN = 100;

const HELP: HelpTexts = {
  examples: ["params", "params show users", "params get users 17 42", "params get w 3 --json"],
};

export function paramsCommand(invocation: Invocation): Command {
  const command = new Command("params")
    .usage("[weighbridge://host:port] [options]")
    .summary("look at the parameters of a running cluster")
    .description("Lists the parameters of a running cluster, shows one of them, and prints values. Changes nothing.")
    .option("--json", "print one JSON document")
    .addOption(timeoutOption())
    .action(async (flags: ParamsFlags) => await list(flags, invocation));
  for (const make of [listCommand, showCommand, getCommand]) command.addCommand(make(invocation));
  return addClusterHelp(command, invocation, HELP);
}

/** The same as without a word. */
function listCommand(invocation: Invocation): Command {
  const command = new Command("list")
    .usage("[weighbridge://host:port] [options]")
    .summary("list the parameters, as params alone does")
    .description("Lists the parameters of a running cluster, as `params` alone does.")
    .option("--json", "print one JSON document")
    .addOption(timeoutOption())
    .action(async (flags: ParamsFlags) => await list(flags, invocation));
  return addClusterHelp(command, invocation, { examples: ["params list"] });
}

async function list(flags: ParamsFlags, invocation: Invocation): Promise<void> {
  const request = requestOf("params", flags, invocation);
  await withScheduler(request, async (found) => {
    const parameters = (await entriesOf(request, found)).map(({ spec }) => parameterFields(spec));
    const { job } = found.status;
    print(flags, { job, parameters }, () => listText(job, parameters, terminalColumns()));
  });
}

const SHOW_HELP: HelpTexts = {
  about: `Memory is that of the values, of what the optimizer keeps for them, and of the index. Settings are those that the parameter was made
with.`,
  examples: ["params show users", "params show users --json"],
};

function showCommand(invocation: Invocation): Command {
  const command = new Command("show")
    .usage("[weighbridge://host:port] <name> [options]")
    .summary("show a parameter, and its share of each server")
    .description("Shows a parameter's rows, memory, optimizer and consistency, and how it is spread over the servers.")
    .argument("<name>", "the parameter's name")
    .option("--json", "print one JSON document")
    .addOption(timeoutOption())
    .action(async (name: string, flags: ParamsFlags) => {
      const request = requestOf("params show", flags, invocation);
      await withScheduler(request, async (found) => {
        const { number, spec } = await entryOf(request, found, name);
        const fields = parameterFields(spec);
        const servers = await sharesOf(request, found, number);
        const document = { ...fields, servers: servers.map((share) => serverFields(fields, share)) };
        print(flags, document, () => parameterText(fields, servers, terminalColumns()));
      });
    });
  return addClusterHelp(command, invocation, SHOW_HELP);
}

const GET_HELP: HelpTexts = {
  about: `Keys are decimal numbers, or strings with --string. Of a tensor they are numbers of rows; without any, the first rows are shown.`,
  more: `Strings are hashed as the API hashes string keys. A key without a row is marked, and stays without one: its values are those that its
first update would find.

Reading does not wait for training. The command has to reach the servers, not the scheduler alone.`,
  examples: ["params get users 17 42", "params get users user:5 --string", "params get w", "params get w 3 --json"],
};

function getCommand(invocation: Invocation): Command {
  const command = new Command("get")
    .usage("[weighbridge://…] <name> [keys...] [options]")
    .summary("print rows of a parameter")
    .description("Prints rows of an embedding by their keys, or rows of a tensor by their numbers.")
    .argument("<name>", "the parameter's name")
    .argument("[keys...]", "keys of an embedding, or numbers of rows of a tensor")
    .option("--string", "the keys are strings")
    .option("--json", "print one JSON document")
    .addOption(timeoutOption())
    .action(async (name: string, words: string[], flags: ParamsFlags) => {
      const request = requestOf("params get", flags, invocation);
      await withScheduler(request, async (found) => {
        const { number, spec } = await entryOf(request, found, name);
        const { readRows } = await import("./params-values.ts"); // which loads a worker
        const areStrings = flags.string === true;
        const { rows, more = 0 } = await readRows(request, found, { number, spec, words, areStrings, isWhole: flags.json === true });
        const fields = parameterFields(spec);
        print(flags, valuesDocument(fields, rows), () => valuesText(fields, rows, more, terminalColumns()));
      });
    });
  return addClusterHelp(command, invocation, GET_HELP);
}

function timeoutOption(): Option {
  const option = new Option("--timeout <time>", "how long to wait for each answer [10s]");
  return option.argParser(timeOf(TIMEOUT_MS_MIN));
}

function requestOf(command: string, { timeout = TIMEOUT_MS, ...flags }: ParamsFlags, invocation: Invocation): ClusterRequest {
  return clusterRequest(command, flags, invocation, timeout);
}

function print({ json }: ParamsFlags, document: object, text: () => string): void {
  process.stdout.write(`${json === true ? JSON.stringify(document, null, 2) : text()}\n`);
}

type Entry = { readonly number: number; readonly spec: ParameterSpec };

/** All that are made, in the order in which they were. */
async function entriesOf({ clock, findMs }: ClusterRequest, { scheduler }: FoundScheduler): Promise<readonly Entry[]> {
  const listed: CatalogueEntry[] = [];
  for (;;) {
    const after = listed.at(-1)?.number ?? 0;
    const { entries, isLast } = await callJson(scheduler, catalogueList, { after }, clock, { timeoutMs: findMs });
    listed.push(...entries);
    if (isLast || entries.length === 0) break;
  }
  return listed.flatMap(({ number, spec }) => (spec === undefined ? [] : [{ number, spec: decodeParameterSpec(spec) }]));
}

/** Throws UNKNOWN_PARAMETER. */
async function entryOf(request: ClusterRequest, found: FoundScheduler, name: string): Promise<Entry> {
  const entries = await entriesOf(request, found);
  const entry = entries.find(({ spec }) => spec.name === name);
  if (entry !== undefined) return entry;
  const names = entries.map(({ spec }) => spec.name);
  const problem = `job ${found.status.job} has no parameter ${JSON.stringify(name)}${didYouMean(name, names)}`;
  throw new WeighbridgeError("UNKNOWN_PARAMETER", `${problem}; list them with: weighbridge params`);
}

/** Of each server, by rank. */
async function sharesOf(request: ClusterRequest, found: FoundScheduler, parameter: number): Promise<readonly ServerShare[]> {
  const { call } = relayedCalls(request, found);
  const sizes = serverRanks(found.status).map(async (server) => {
    const { count, bytes } = await call(server, parameterSize, { parameter, keys: new BigUint64Array(0) });
    return { server, count, bytes };
  });
  return await Promise.all(sizes);
}

function serverFields({ kind }: ParameterFields, { server, count, bytes }: ServerShare): object {
  return { server, [kind === "tensor" ? "elements" : "rows"]: count, bytes };
}
