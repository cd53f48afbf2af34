// prepack — npm runs it before it packs the repository itself, which must not be: Node strips no types below
// node_modules, so the sources cannot run there. The package is dist/, which `npm run build` makes and which has no
// such script.

console.error("weighbridge: the repository is not the package, it would not run from node_modules: npm run build && npm pack ./dist");
process.exit(1);
