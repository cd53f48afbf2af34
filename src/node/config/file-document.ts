// file-document — reads a YAML or JSON file into one mapping, or says what is wrong with it. Knows nothing about keys.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { reasonOf } from "../../base/errors.ts";
import { type ConfigProblem, quote } from "./config-problem.ts";
import { isMapping } from "./node-config.ts";

/** Loaded with the first YAML file: most processes are configured without one, and the library's 70 modules take a while. */
const require = createRequire(import.meta.url);

export type ConfigFile = { readonly path: string; readonly text: string };

/** A path or a section's name, and the option or variable that gives it. */
export type NamedText = { readonly subject: string; readonly origin: string; readonly value: string };

export type FileDocument = {
  readonly path: string;
  readonly mapping: Readonly<Record<string, unknown>>;
  /** Not empty: the file is of no use. */
  readonly problems: readonly ConfigProblem[];
};

export function readConfigFile({ subject, origin, value: path }: NamedText): FileDocument {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    const expected = "the path of a readable YAML or JSON file";
    const fix = "give such a path, absolute or from the folder the node was started in";
    const found = `${quote(path)}, but ${reasonOf(error)}`;
    return { path, mapping: {}, problems: [{ subject, origin, expected, found, fix }] };
  }
  return parseConfigFile({ path, text });
}

/** An empty file is an empty mapping. `<<` merges a mapping into another, as Hetu's files do. */
export function parseConfigFile({ path, text }: ConfigFile): FileDocument {
  const isJson = path.endsWith(".json");
  const refuse = (expected: string, found: string): FileDocument => {
    const problem = { subject: path, origin: `file:${path}`, expected, found, fix: "correct the file" };
    return { path, mapping: {}, problems: [problem] };
  };
  let value: unknown;
  try {
    value = isJson ? parseJson(text) : parseYaml(text);
  } catch (error) {
    return refuse(isJson ? "valid JSON" : "valid YAML or JSON", reasonOf(error).trimEnd());
  }
  const mapping = value ?? {};
  return isMapping(mapping) ? { path, mapping, problems: [] } : refuse("a mapping from keys to values", quote(value));
}

function parseJson(text: string): unknown {
  return text.trim() === "" ? undefined : JSON.parse(text);
}

function parseYaml(text: string): unknown {
  const { parseDocument } = require("yaml") as typeof import("yaml");
  const document = parseDocument(text, { merge: true });
  const [error] = document.errors;
  if (error !== undefined) throw error;
  return document.toJS();
}
