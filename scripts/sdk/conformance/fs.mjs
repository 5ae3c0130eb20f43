// The conformance suite wants Node 22's `fs.globSync`, which it does not need to test a server.
export * from 'node:fs'
export const globSync = () => []
