// What the conformance suite starts to test a client: the program adds the suite's server, signs in there with a
// browser that this file plays, and calls a tool. The server's address is the last word.
import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

const url = process.argv.at(-1)
const scenario = process.env.MCP_CONFORMANCE_SCENARIO
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}')
const home = await mkdtemp(path.join(tmpdir(), 'tidegate-conformance-'))

// Runs the program; whoever wants to read along gets what it writes to standard error.
const tidegate = (words, along = () => {}) =>
  new Promise((resolve) => {
    const child = spawn(process.env.TIDEGATE_BIN, ['--home', home, ...words], { stdio: ['ignore', 'pipe', 'pipe'] })
    let said = ''
    child.stdout.on('data', (chunk) => (said += chunk))
    child.stderr.on('data', (chunk) => along((said += chunk)))
    child.on('exit', (code) => resolve({ code, said }))
  })

const set = (key, value) => tidegate(['config', 'set', `mcp.servers.suite.${key}`, value])

const login = (...more) => {
  let opened = false
  return tidegate(['mcp', 'login', 'suite', ...more], (said) => {
    const found = said.match(/(https?:\/\/\S+)\n/)
    if (!found || opened) return
    opened = true
    fetch(found[1]).catch(() => {})
  })
}

// One tool, called as a person at a shell would.
const call = async () => {
  const { said } = await tidegate(['mcp', 'test', 'suite', '--json'])
  const tools = JSON.parse(said.slice(said.indexOf('{'))).tools ?? []
  const args = scenario === 'tools_call' ? '{"a":5,"b":3}' : '{}'
  const called = tools.length === 0 ? { said: '' } : await tidegate(['tools', 'invoke', tools[0], '--args', args])
  return said + called.said
}

try {
  await tidegate(['mcp', 'add', 'suite', '--url', url])
  await set('mode', 'allow')
  await set('risk', 'read')
  if (context.client_id) await set('oauth.clientId', context.client_id)
  if (context.client_secret) await set('oauth.clientSecret', context.client_secret)
  if (scenario === 'auth/basic-cimd') await set('oauth.clientId', 'https://conformance-test.local/client-metadata.json')
  if (scenario.startsWith('auth/')) {
    const { code, said } = await login()
    process.stderr.write(said)
    if (code !== 0) process.exitCode = 1
  }
  let said = await call()
  // What more a call needs, the program says; a person would do as it says, not for ever.
  for (let times = 0; times < 2; times += 1) {
    const more = said.match(/mcp login suite --scope '([^']+)'/)
    if (!more) break
    await login('--scope', more[1])
    said = await call()
  }
  process.stderr.write(said)
} finally {
  await rm(home, { recursive: true, force: true })
}
