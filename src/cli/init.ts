// init — writes a new project that runs at once: a script of templates/, a tsconfig.json, a README, and a package.json
// that takes this package from where it runs, as long as it is in no registry.

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { Command, Option } from "commander";
import { reasonOf, WeighbridgeError } from "../base/errors.ts";
import { addHelp, type HelpTexts, type Invocation } from "./command-parts.ts";
import { printNotice } from "./notices.ts";

/** What each is, and how its scripts are started. */
const TEMPLATES = {
  service: {
    about: "a web service that learns from clicks",
    scripts: { start: "node main.ts", cluster: "weighbridge launch -s 2 -w 0 --port 9700" },
  },
  train: { about: "a model trained by several workers", scripts: { start: "weighbridge launch -s 2 -w 2 -- main.ts" } },
  tables: {
    about: "tables with bounded staleness, as Petuum's",
    scripts: { start: "weighbridge launch -s 1 -w 2 -- main.ts" },
  },
} as const;
type TemplateName = keyof typeof TEMPLATES;

const PACKAGE_ROOT = fileURLToPath(new URL(".", import.meta.resolve("weighbridge/package.json")));
/** For `npm run check`. */
const CHECKED_WITH = { "@types/node": "^24.0.0", typescript: "^5.9.0" };
const NODE_MAJOR_MIN = 24;
const IGNORED = "node_modules/\n.weighbridge/\n";

const HELP: HelpTexts = {
  about: `Templates:
${Object.entries(TEMPLATES)
  .map(([name, { about }]) => `  ${name.padEnd(8)}  ${about}`)
  .join("\n")}

As long as the package is in no registry, the project takes it from where this command runs; --from names another directory, a tarball that
\`npm pack\` made, or a version.`,
  examples: ["init ranker --template service", "init model --template train --from ./weighbridge-0.1.0.tgz"],
};

type InitFlags = { readonly template: TemplateName; readonly from?: string; readonly json?: true };

export function initCommand(invocation: Invocation): Command {
  const names = Object.keys(TEMPLATES);
  const command = new Command("init")
    .summary("write a new project that runs at once")
    .description("Writes a small project into a new or empty directory: a script, package.json, tsconfig.json and README.md.")
    .argument("<directory>", "where to write it")
    .addOption(new Option("--template <name>", `what it is: ${names.join(", ")}`).choices(names).makeOptionMandatory())
    .option("--from <package>", "where the project takes weighbridge from")
    .option("--json", "print one JSON document")
    .action((directory: string, { template, from, json }: InitFlags) => {
      const files = writeProject(resolve(directory), template, from);
      if (json === true) process.stdout.write(`${JSON.stringify({ directory: resolve(directory), template, files }, null, 2)}\n`);
      else process.stdout.write(`${directory}: ${files.join(", ")}\n\n  cd ${directory}\n  npm install\n  npm start\n`);
      if (from === undefined && !isBuilt())
        printNotice(`${PACKAGE_ROOT} is not built yet: call \`npm run build\` there before \`npm start\``);
    });
  return addHelp(command, invocation, HELP);
}

/** Returns the names of the files. Throws BAD_CONFIG for a directory that is not empty, or cannot be written. */
function writeProject(directory: string, template: TemplateName, from: string | undefined): readonly string[] {
  const name = packageName(directory);
  const dependency = from === undefined ? `file:${pathFrom(directory, ownPackage())}` : dependencyOf(directory, from);
  const { scripts } = TEMPLATES[template];
  const manifest = {
    name,
    private: true,
    type: "module",
    scripts: { ...scripts, check: "tsc" },
    engines: { node: `>=${NODE_MAJOR_MIN}` },
    dependencies: { weighbridge: dependency, ...(hasOldNode() ? { node: `^${NODE_MAJOR_MIN}.0.0` } : {}) },
    devDependencies: CHECKED_WITH,
  };
  const files = {
    "package.json": `${JSON.stringify(manifest, null, 2)}\n`,
    "tsconfig.json": templateText("project/tsconfig.json"),
    "main.ts": templateText(`${template}/main.ts`),
    "README.md": templateText(`${template}/README.md`).replace("NAME", name),
    ".gitignore": IGNORED,
  };
  try {
    mkdirSync(directory, { recursive: true });
    if (readdirSync(directory).length > 0) throw usage(`${directory} must be empty, or not be there yet`);
    for (const [file, text] of Object.entries(files)) writeFileSync(join(directory, file), text, { flag: "wx" });
  } catch (cause) {
    if (cause instanceof WeighbridgeError) throw cause;
    throw usage(`a project cannot be written to ${directory}: ${reasonOf(cause)}`, cause);
  }
  return Object.keys(files);
}

/** Whether npm runs on a Node that is too old for the project: npm then brings one along. */
function hasOldNode(): boolean {
  const [, major] = process.env.npm_config_user_agent?.match(/ node\/v(\d+)/) ?? [];
  return major !== undefined && Number(major) < NODE_MAJOR_MIN;
}

/** The package that this command belongs to; in the repository, what is built of it. */
function ownPackage(): string {
  return existsSync(join(PACKAGE_ROOT, "src")) ? join(PACKAGE_ROOT, "dist") : PACKAGE_ROOT;
}

/** Whether there is what other packages import: a checkout runs its sources, and is built on demand. */
function isBuilt(): boolean {
  return existsSync(join(ownPackage(), "package.json"));
}

function templateText(path: string): string {
  return readFileSync(join(PACKAGE_ROOT, "templates", path), "utf8");
}

/** What npm takes for a name. */
function packageName(directory: string): string {
  const name = basename(directory)
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, "-")
    .replace(/^[._-]+/, "");
  return name === "" ? "weighbridge-project" : name;
}

/** A path that is there, or a version or tag. */
function dependencyOf(directory: string, from: string): string {
  if (existsSync(from)) return `file:${pathFrom(directory, resolve(from))}`;
  if (/[/\\]|\.tgz$/.test(from) && !from.includes(":")) throw usage(`--from: there is no ${resolve(from)}`);
  return from;
}

/** npm writes such paths with slashes on every system. */
function pathFrom(directory: string, path: string): string {
  return relative(directory, path).replaceAll("\\", "/");
}

function usage(message: string, cause?: unknown): WeighbridgeError {
  return new WeighbridgeError("BAD_CONFIG", message, { cause });
}
