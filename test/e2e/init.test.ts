// init — Goal: each project that `weighbridge init` writes runs at once, and its types hold.

import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { BUILD, Processes, ROOT, type Running } from "./processes.ts";

/** What projects take: a project of the repository takes what `npm run build` has made. */
const PACKAGE = BUILD ?? join(ROOT, "dist");
const FILES = [".gitignore", "README.md", "main.ts", "package.json", "tsconfig.json"];

type Manifest = {
  readonly name: string;
  readonly scripts: Readonly<Record<string, string>>;
  readonly dependencies: Record<string, string>;
};

class Project extends Processes {
  readonly directory: string;

  constructor(template: string) {
    super();
    this.directory = join(temporaryDirectory("init"), template);
  }

  static async create(template: string, ...flags: readonly string[]): Promise<Project> {
    const project = new Project(template);
    const init = project.weighbridge(["init", project.directory, "--template", template, ...flags]);
    await init.succeeds();
    assert.match(init.stdout, /\n {2}npm install\n {2}npm start\n$/);
    return project;
  }

  get manifest(): Manifest {
    return JSON.parse(readFileSync(join(this.directory, "package.json"), "utf8")) as Manifest;
  }

  /** As npm lays a package in that lies in a directory. */
  install(): void {
    const modules = join(this.directory, "node_modules");
    mkdirSync(join(modules, "@types"), { recursive: true });
    symlinkSync(PACKAGE, join(modules, "weighbridge"));
    symlinkSync(join(ROOT, "node_modules/@types/node"), join(modules, "@types/node"));
  }

  /** `npm run NAME`, without npm. */
  script(name: string, env: Readonly<Record<string, string>> = {}): Running {
    const [command = "", ...words] = this.manifest.scripts[name]?.split(" ") ?? [];
    const how = { cwd: this.directory, env };
    return command === "weighbridge" ? this.weighbridge(words, how) : this.run(process.execPath, words, how);
  }
}

test("a project has its files, and takes the package from where the command runs", async () => {
  await using project = await Project.create("train");
  assert.deepEqual(readdirSync(project.directory).toSorted(), FILES);
  const { name, dependencies } = project.manifest;
  assert.equal(name, "train");
  const path = dependencies.weighbridge?.replace(/^file:/, "") ?? "";
  assert.equal(realpathSync(resolve(project.directory, path)), realpathSync(PACKAGE));
  assert.match(readFileSync(join(project.directory, "README.md"), "utf8"), /^# train\n/);
});

test("--json names the directory, the template and the files", async () => {
  await using processes = new Processes();
  const directory = join(temporaryDirectory("init"), "ranker");
  const init = processes.weighbridge(["init", directory, "--template", "service", "--json"]);
  await init.succeeds();
  const { files, ...others } = JSON.parse(init.stdout) as { readonly files: readonly string[] };
  assert.deepEqual(others, { directory, template: "service" });
  assert.deepEqual(files.toSorted(), readdirSync(directory).toSorted());
});

test("a project that npm makes on an older Node brings Node 24 along", async () => {
  const nodeOf = async (agent: string): Promise<string | undefined> => {
    await using project = new Project("service");
    const init = project.weighbridge(["init", project.directory, "--template", "service"], { env: { npm_config_user_agent: agent } });
    await init.succeeds();
    return project.manifest.dependencies["node"];
  };
  assert.equal(await nodeOf("npm/10.8.2 node/v20.20.2 linux x64 workspaces/false"), "^24.0.0");
  assert.equal(await nodeOf("npm/11.6.1 node/v24.21.0 linux x64 workspaces/false"), undefined);
});

test("a training template trains, and its workers agree on the model", async () => {
  await using project = await Project.create("train");
  project.install();
  const start = project.script("start");
  await start.succeeds();
  assert.equal(start.count(/^\[worker\/\d\] step 200: loss 0\.0000\d\d$/), 2, start.transcript);
});

test("a tables template counts what both workers have added", async () => {
  await using project = await Project.create("tables");
  assert.equal(project.manifest.scripts.start, "weighbridge launch -s 1 -w 2 -- main.ts", "its script runs in workers, as it says");
  project.install();
  const start = project.script("start");
  await start.succeeds();
  const sums = [...start.stdout.matchAll(/weigh (\d+), bridge (\d+), van (\d+), cart (\d+)$/gm)].map(([, ...counts]) => {
    return counts.reduce((sum, count) => sum + Number(count), 0);
  });
  assert.deepEqual(sums, [100, 100], start.transcript);
});

test("a service template ranks what was clicked first", async () => {
  await using project = await Project.create("service");
  project.install();
  const port = await freePort("127.0.0.1");
  const start = project.script("start", { PORT: String(port) });
  await start.says(/^serving at /);
  const ask = async (path: string, method = "GET"): Promise<string> =>
    await (await fetch(`http://127.0.0.1:${port}${path}`, { method })).text();
  for (let clicks = 0; clicks < 20; clicks++) assert.equal(await ask("/click?user=anna&item=coffee", "POST"), "learned\n");
  assert.equal(await ask("/rank?user=anna&item=tea&item=coffee"), '["coffee","tea"]\n');
});

test("the types of every project hold", { skip: BUILD === undefined ? "the sources have options of their own" : false }, async () => {
  await Promise.all(
    ["service", "train", "tables"].map(async (template) => {
      await using project = await Project.create(template);
      project.install();
      const tsc = project.run(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", project.directory]);
      await tsc.succeeds();
    }),
  );
});

test("in the repository a project takes the package that was built there", {
  skip: BUILD === undefined && "npm test builds it",
}, async () => {
  await using project = new Project("train");
  await project.fromSources(["init", project.directory, "--template", "train"]).succeeds();
  assert.equal(
    realpathSync(resolve(project.directory, project.manifest.dependencies.weighbridge?.replace(/^file:/, "") ?? "")),
    join(ROOT, "dist"),
  );
});

test("--from takes a tarball, a directory or a version, and a directory that is not empty is refused", async () => {
  const from = join(temporaryDirectory("init"), "weighbridge-0.1.0.tgz");
  writeFileSync(from, "");
  await using tarball = await Project.create("train", "--from", from);
  assert.equal(resolve(tarball.directory, tarball.manifest.dependencies.weighbridge?.replace(/^file:/, "") ?? ""), from);
  await using version = await Project.create("train", "--from", "^0.1.0");
  assert.equal(version.manifest.dependencies.weighbridge, "^0.1.0");
  const again = version.weighbridge(["init", version.directory, "--template", "train"]);
  await again.refuses(/BAD_CONFIG: .*train must be empty, or not be there yet\n$/);
  await version.weighbridge(["init", "x", "--template", "trains"]).refuses(/Allowed choices are service, train, tables/);
  const missing = version.weighbridge(["init", join(version.directory, "x"), "--template", "train", "--from", "./no.tgz"]);
  await missing.refuses(/BAD_CONFIG: --from: there is no .*no\.tgz\n$/);
});
