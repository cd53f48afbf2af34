// public-surface — what users of the package see: for each door the names that it exports, with their declarations,
// read from the built declarations (npm run build) by the TypeScript that also checks the sources. make-api.ts writes
// it down and makes pages of it; test/e2e/public-surface.test.ts compares, and checks what is below.
//
// Invariants (the test cites them):
//   PublicSurface.P1. What stands in a signature is exported by a door.
//   PublicSurface.P2. Every export and every public member has a doc comment. The test lists what is excused.
//   PublicSurface.P3. A declaration is written down once, with the first door that exports it.

import { readFileSync } from "node:fs";
import { join, sep } from "node:path";
import { type Node, SyntaxKind } from "typescript/unstable/ast";
import { API, type Project, SymbolFlags, type Symbol as TypeSymbol } from "typescript/unstable/sync";

export type Door = {
  /** As it is imported: "weighbridge/kv". */
  readonly name: string;
  /** The file of its declarations. */
  readonly path: string;
  /** By the names that the door gives them. */
  readonly exports: ReadonlyMap<string, Declared>;
};

const TOP_LEVEL: ReadonlySet<SyntaxKind> = new Set([
  ...[SyntaxKind.ClassDeclaration, SyntaxKind.InterfaceDeclaration, SyntaxKind.TypeAliasDeclaration],
  ...[SyntaxKind.FunctionDeclaration, SyntaxKind.VariableDeclaration, SyntaxKind.EnumDeclaration],
]);
const MEMBERS: ReadonlySet<SyntaxKind> = new Set([
  ...[SyntaxKind.PropertySignature, SyntaxKind.MethodSignature, SyntaxKind.PropertyDeclaration, SyntaxKind.MethodDeclaration],
  ...[SyntaxKind.GetAccessor, SyntaxKind.SetAccessor],
]);
/** Below these nothing is a member of the declaration: parameters of a function, for instance. */
const INNER: ReadonlySet<SyntaxKind> = new Set([
  ...[SyntaxKind.Parameter, SyntaxKind.FunctionType, SyntaxKind.TypeParameter, SyntaxKind.ConditionalType],
]);
const FIELDS: ReadonlySet<SyntaxKind> = new Set([
  ...[SyntaxKind.PropertySignature, SyntaxKind.PropertyDeclaration, SyntaxKind.GetAccessor, SyntaxKind.SetAccessor],
]);
/** Members that need no words: how an object is disposed of, and what tells the types of a union apart. */
const SELF_EVIDENT = /^(?:\[Symbol\..*|type|kind)$/;

type Manifest = { readonly name: string; readonly exports: Readonly<Record<string, { readonly types?: string }>> };

/** What the declarations are read with. */
export const COMPILER_OPTIONS: Readonly<Record<string, unknown>> = {
  ...{ module: "nodenext", target: "es2024", lib: ["es2024", "esnext.disposable", "dom"], types: ["node"] },
  ...{ strict: true, skipLibCheck: true, noEmit: true, allowImportingTsExtensions: true },
};

/** The compiler that reads the declarations; whoever opens it closes it. */
export class PublicSurface {
  /** In the order of the manifest: the main door is the first. */
  readonly doors: readonly Door[];
  readonly #api: API;

  /** Reads the package that was built in `dist`. */
  constructor(dist: string) {
    const { name: main, exports } = JSON.parse(readFileSync(join(dist, "package.json"), "utf8")) as Manifest;
    const doors = Object.entries(exports).flatMap(([door, { types }]) =>
      types === undefined ? [] : [{ name: main + door.slice(".".length), path: join(dist, types) }],
    );
    const config = join(dist, "public-surface.json"); // for the compiler alone: it is never on the disk
    const text = JSON.stringify({ compilerOptions: COMPILER_OPTIONS, files: doors.map(({ path }) => path) });
    this.#api = new API({ cwd: dist, fs: { readFile: (path) => (path === slashed(config) ? text : undefined) } });
    const project = this.#api.updateSnapshot({ openProjects: [config] }).getProject(config);
    if (project === undefined) throw new Error(`${dist} has no declarations: run npm run build`);
    const reader = new Reader(project, slashed(dist));
    this.doors = doors.map(({ name, path }) => ({ name, path, exports: reader.exportsOf(path) }));
  }

  [Symbol.dispose](): void {
    this.#api.close();
  }
}

/** A top-level declaration of the package. */
export class Declared {
  readonly name: string;
  /** Several of a function with overloads. */
  readonly nodes: readonly Node[];
  readonly #reader: Reader;
  #names: readonly Declared[] | undefined;
  #bases: readonly Declared[] | undefined;

  constructor(reader: Reader, name: string, nodes: readonly Node[]) {
    this.#reader = reader;
    this.name = name;
    this.nodes = nodes;
  }

  /** Its file, and where in that its statements are, with their comments. */
  get place(): { readonly file: string; readonly ranges: readonly { readonly from: number; readonly to: number }[] } {
    const statements = this.nodes.map(statementOf);
    const [first] = statements as [Node];
    return { file: join(first.getSourceFile().fileName), ranges: statements.map(({ pos, end }) => ({ from: pos, to: end })) };
  }

  /** The other declarations of the package that its public signatures name. */
  get names(): readonly Declared[] {
    this.#names ??= this.#reader.declarationsOf(this.nodes.flatMap((node) => identifiersIn(node))).filter((other) => other !== this);
    return this.#names;
  }

  /** What it extends or implements. */
  get bases(): readonly Declared[] {
    this.#bases ??= this.#reader.declarationsOf(this.nodes.flatMap((node) => identifiersIn(node, SyntaxKind.HeritageClause)));
    return this.#bases;
  }

  /** Whether a member of this name has a doc comment, here or in what this one extends. */
  describes(member: string): boolean {
    return this.nodes.some((node) => hasDocumented(node, member)) || this.bases.some((base) => base.describes(member));
  }

  /**
   * Itself and its members that have no doc comment: "Session.rank". What is inside a member that has one is described
   * there.
   */
  undocumented(excused: (member: Node) => boolean): readonly string[] {
    const inherits = (member: Node): boolean => this.bases.some((base) => base.describes(nameOf(member)));
    const own = this.nodes.some((node) => isDocumented(statementOf(node))) ? [] : [this.name];
    return [...own, ...this.nodes.flatMap((node) => undocumentedMembers(node, this.name, (member) => inherits(member) || excused(member)))];
  }

  /** Its options that refuse `undefined`: with exactOptionalPropertyTypes callers could not pass one on. */
  get strictOptions(): readonly string[] {
    return this.nodes.flatMap((node) => optionsWithoutUndefined(node, this.name));
  }

  /** Its doc comments. */
  get comment(): string {
    return this.nodes.flatMap((node) => (statementOf(node).jsDoc ?? []).map((comment) => comment.getText())).join("\n");
  }

  /** As TypeScript, without comments and without what is private. */
  get text(): string {
    return this.nodes.map(textOf).join("\n");
  }
}

class Reader {
  readonly #project: Project;
  readonly #dist: string;
  readonly #known = new Map<string, Declared>();

  constructor(project: Project, dist: string) {
    this.#project = project;
    this.#dist = dist;
  }

  exportsOf(path: string): ReadonlyMap<string, Declared> {
    const { checker, program } = this.#project;
    const file = program.getSourceFile(path);
    const module = file === undefined ? undefined : checker.getSymbolAtLocation(file);
    if (module === undefined) throw new Error(`${path} has no declarations`);
    const exports = checker.getExportsOfModule(module).map((symbol) => [symbol.name, this.#declared(symbol)] as const);
    return new Map(exports.filter((entry): entry is [string, Declared] => entry[1] !== undefined));
  }

  /** What these names stand for, of the package alone. */
  declarationsOf(identifiers: readonly Node[]): readonly Declared[] {
    if (identifiers.length === 0) return [];
    const symbols = this.#project.checker.getSymbolAtLocation(identifiers);
    const declared = symbols.map((symbol) => (symbol === undefined ? undefined : this.#declared(symbol)));
    return [...new Set(declared)].filter((found): found is Declared => found !== undefined);
  }

  #declared(found: TypeSymbol): Declared | undefined {
    const symbol = (found.flags & SymbolFlags.Alias) === 0 ? found : this.#project.checker.getAliasedSymbol(found);
    const handles = symbol.declarations.filter(({ kind, path }) => TOP_LEVEL.has(kind) && path.startsWith(`${this.#dist}/`));
    const [first] = handles;
    if (first === undefined) return undefined;
    const place = `${first.path}:${first.index}`;
    const known = this.#known.get(place);
    if (known !== undefined) return known;
    const nodes = handles.map((handle) => handle.resolve(this.#project)).filter((node): node is Node => node !== undefined);
    const declared = new Declared(this, symbol.name, nodes);
    this.#known.set(place, declared);
    return declared;
  }
}

/** Whether a member is a field or a getter, not a function. */
export function isField(member: Node): boolean {
  return FIELDS.has(member.kind);
}

/** What carries the modifiers and comments of a declaration. */
function statementOf(node: Node): Node {
  return node.kind === SyntaxKind.VariableDeclaration ? node.parent.parent : node;
}

function modifiersOf(node: Node): readonly SyntaxKind[] {
  return ((node as { readonly modifiers?: readonly Node[] }).modifiers ?? []).map(({ kind }) => kind);
}

function nameOf(node: Node): string {
  return (node as { readonly name?: Node }).name?.getText() ?? "";
}

function isPrivate(node: Node): boolean {
  return modifiersOf(node).includes(SyntaxKind.PrivateKeyword) || nameOf(node).startsWith("#");
}

function isDocumented(node: Node): boolean {
  return (node.jsDoc?.length ?? 0) > 0;
}

/** The names below a node, or below its children of one kind. */
function identifiersIn(node: Node, of?: SyntaxKind): readonly Node[] {
  const found: Node[] = [];
  const visit = (inner: Node): void => {
    if (isPrivate(inner)) return;
    if (inner.kind === SyntaxKind.Identifier) found.push(inner);
    inner.forEachChild(visit);
  };
  node.forEachChild((child) => {
    if (of === undefined || child.kind === of) visit(child);
  });
  return found;
}

function hasDocumented(node: Node, member: string): boolean {
  let isThere = false;
  node.forEachChild((inner) => {
    isThere ||= MEMBERS.has(inner.kind) && nameOf(inner) === member && isDocumented(inner);
  });
  return isThere;
}

function undocumentedMembers(node: Node, path: string, excused: (member: Node) => boolean): readonly string[] {
  const found: string[] = [];
  node.forEachChild((inner) => {
    if (isPrivate(inner) || INNER.has(inner.kind)) return;
    const isMember = MEMBERS.has(inner.kind);
    const name = isMember ? `${path}.${nameOf(inner)}` : path;
    if (isMember && !isDocumented(inner) && !SELF_EVIDENT.test(nameOf(inner)) && !excused(inner)) found.push(name);
    if (!isMember || !isDocumented(inner)) found.push(...undocumentedMembers(inner, name, excused));
  });
  return found;
}

function optionsWithoutUndefined(node: Node, path: string): readonly string[] {
  const found: string[] = [];
  node.forEachChild((inner) => {
    const isOption = inner.kind === SyntaxKind.PropertySignature;
    const name = isOption ? `${path}.${nameOf(inner)}` : path;
    const { postfixToken, type } = inner as { readonly postfixToken?: Node; readonly type?: Node };
    if (isOption && postfixToken !== undefined && !/\b(?:undefined|unknown|never)$/.test(type?.getText() ?? "")) found.push(name);
    found.push(...optionsWithoutUndefined(inner, name));
  });
  return found;
}

/** Strings, which stay, and comments, which go with the white space before them. */
const COMMENT = /("(?:[^"\\]|\\.)*")|\s*(?:\/\*[\s\S]*?\*\/|\/\/[^\n]*)/g;
const PRIVATE_MEMBER = /^ *(?:#private|private readonly \w+|private (?:get |set )?\w+(?:\(\))?);\n/gm;

function textOf(node: Node): string {
  const text = statementOf(node)
    .getText()
    .replace(COMMENT, "$1")
    .replaceAll(/\n\s*\n/g, "\n");
  const isConstructor = (line: string): boolean => /\bconstructor\b/.test(line);
  return brokenAtBars(
    text.replace(PRIVATE_MEMBER, (line) => (isConstructor(line) ? line : "")).replace(/^export declare |^declare |^export /, ""),
  );
}

/** A long list of words has a line for each, so that a new one is a line of its own in review. */
function brokenAtBars(text: string): string {
  return text.replaceAll(/^.{121,}$/gm, (line) => line.replaceAll(/ \| (?=")/g, "\n    | "));
}

function slashed(path: string): string {
  return path.replaceAll(sep, "/");
}
