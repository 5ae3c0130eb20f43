// The protocol's own conformance suite against our server, which a gateway has under /mcp.
//
// The suite cannot send a token, so a proxy adds it; whatever else it sends arrives as it was sent. Most of its
// scenarios want tools, prompts and resources with fixed names, which only a server made for the suite has.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import http from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'

const here = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const suite = path.join(here, 'node_modules/@modelcontextprotocol/conformance/dist/index.js')

// What a server without the suite's own fixtures can show.
const APPLY = ['server-initialize', 'ping', 'tools-list', 'resources-list', 'server-sse-multiple-streams', 'dns-rebinding-protection']
// All others, and why they say nothing about us.
const OTHERS = {
  'logging-set-level': 'we offer no log to clients',
  'completion-complete': 'we offer no completion',
  'tools-call-simple-text': 'wants a tool test_simple_text',
  'tools-call-image': 'wants a tool test_image_content',
  'tools-call-audio': 'wants a tool test_audio_content',
  'tools-call-embedded-resource': 'wants a tool test_embedded_resource',
  'tools-call-mixed-content': 'wants a tool test_multiple_content_types',
  'tools-call-with-logging': 'wants a tool test_tool_with_logging',
  'tools-call-error': 'wants a tool test_error_handling',
  'tools-call-with-progress': 'wants a tool test_tool_with_progress',
  'tools-call-sampling': 'we ask no client for a model',
  'tools-call-elicitation': 'we ask no client for input',
  'json-schema-2020-12': 'wants a tool json_schema_2020_12_tool',
  'elicitation-sep1034-defaults': 'we ask no client for input',
  'elicitation-sep1330-enums': 'we ask no client for input',
  'server-sse-polling': 'wants a tool test_reconnection, and streams we do not open',
  'resources-read-text': 'wants test://static-text',
  'resources-read-binary': 'wants test://static-binary',
  'resources-templates-read': 'wants test://template/{id}/data',
  'resources-subscribe': 'we offer no subscriptions',
  'resources-unsubscribe': 'we offer no subscriptions',
  'prompts-list': 'we offer no prompts',
  'prompts-get-simple': 'we offer no prompts',
  'prompts-get-with-args': 'we offer no prompts',
  'prompts-get-embedded-resource': 'we offer no prompts',
  'prompts-get-with-image': 'we offer no prompts',
}

let gateway, home, proxy, url

const conformance = (...words) =>
  new Promise((resolve) => {
    const program = ['--import', path.join(here, 'conformance/register.mjs'), suite, ...words]
    execFile(process.execPath, program, { cwd: here }, (error, stdout, stderr) => resolve({ code: error?.code ?? 0, said: stdout + stderr }))
  })

before(async () => {
  home = await mkdtemp(path.join(tmpdir(), 'tidegate-mcp-'))
  gateway = spawn(process.env.TIDEGATE_BIN, ['gateway', 'run', '--port', '0', '--json', '--home', home], { stdio: ['ignore', 'pipe', 'inherit'] })
  const port = await new Promise((resolve, reject) => {
    let said = ''
    gateway.stdout.on('data', (chunk) => {
      said += chunk
      const found = said.match(/127\.0\.0\.1:(\d+)/)
      if (found) resolve(Number(found[1]))
    })
    gateway.on('exit', () => reject(new Error(`the gateway ended: ${said}`)))
  })
  const token = (await readFile(path.join(home, 'credentials/local-token'), 'utf8')).trim()
  proxy = http.createServer((request, response) => {
    const own = `127.0.0.1:${proxy.address().port}`
    const headers = { ...request.headers, authorization: `Bearer ${token}` }
    if (headers.host === own) headers.host = `127.0.0.1:${port}`
    if (headers.origin === `http://${own}`) headers.origin = `http://127.0.0.1:${port}`
    const onward = http.request({ host: '127.0.0.1', port, path: request.url, method: request.method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers)
      answer.pipe(response)
    })
    onward.on('error', () => response.destroy())
    request.pipe(onward)
  })
  await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${proxy.address().port}/mcp`
})

after(async () => {
  proxy?.closeAllConnections()
  proxy?.close()
  if (gateway?.exitCode === null) {
    gateway.kill('SIGTERM')
    await new Promise((resolve) => gateway.on('exit', resolve))
  }
  if (home) await rm(home, { recursive: true, force: true })
})

test('every scenario of the suite is either run or left out for a reason', async () => {
  const { said } = await conformance('list', '--server')
  const listed = said.split('\n').flatMap((line) => line.match(/^ {2}- (\S+) \[/)?.[1] ?? [])
  const known = new Set([...APPLY, ...Object.keys(OTHERS)])
  const server = listed.slice(0, listed.findIndex((name) => name === 'initialize') >>> 0)
  assert.ok(server.length >= 30, said)
  assert.deepEqual(server.filter((name) => !known.has(name)), [])
})

for (const scenario of APPLY) {
  test(`conformance: ${scenario}`, async () => {
    const { code, said } = await conformance('server', '--url', url, '--scenario', scenario)
    assert.equal(code, 0, said)
  })
}
