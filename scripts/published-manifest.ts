// published-manifest — the package.json that is published, made of the repository's. It names no script of ours, no
// tool, no build of Node and no source.

import repository from "../package.json" with { type: "json" };

/** The repository has the package in dist/. */
const BUILT = "./dist/";

export function publishedManifest(): Readonly<Record<string, unknown>> {
  const { private: _private, files: _files, scripts: _scripts, devDependencies: _tools, ...published } = repository;
  const exports = Object.entries(repository.exports).map(([door, target]) => {
    if (typeof target === "string") return [door, target];
    return [door, { types: inPackage(target.types), default: inPackage(target.default) }];
  });
  return {
    ...published,
    exports: Object.fromEntries(exports),
    sideEffects: repository.sideEffects.map(inPackage),
    optionalDependencies: { koffi: repository.optionalDependencies.koffi },
  };
}

function inPackage(path: string): string {
  return path.replace(BUILT, "./");
}
