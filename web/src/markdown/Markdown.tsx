/**
 * Markdown as React elements. Text only ever becomes text nodes and known elements, so an answer cannot bring markup,
 * images or scripts into the page.
 */
import { Fragment, memo, type ReactNode } from "react";
import { useSentences } from "../language";
import { CopyButton } from "../parts/CopyButton";
import { type Inline, parseInline } from "./inline";
import { type Block, parseBlocks } from "./parse";

/** `tail` stands directly after the last word: the caret of an answer that is still growing. */
export const Markdown = memo(function Markdown({ text, tail }: { text: string; tail?: ReactNode }) {
  const blocks = parseBlocks(text);
  return (
    <div className="markdown">
      {blocks.map((block, index) => (
        <BlockView key={index} block={block} tail={index === blocks.length - 1 ? tail : undefined} />
      ))}
      {blocks.length === 0 && tail}
    </div>
  );
});

function BlockView({ block, tail }: { block: Block; tail?: ReactNode }) {
  switch (block.type) {
    case "paragraph":
      return (
        <p>
          <Inlines text={block.text} />
          {tail}
        </p>
      );
    case "heading":
      return <Heading level={block.level} text={block.text} tail={tail} />;
    case "code":
      return <Code language={block.language} text={block.text} tail={tail} />;
    case "rule":
      return <hr />;
    case "quote":
      return (
        <blockquote>
          <Blocks blocks={block.blocks} tail={tail} />
        </blockquote>
      );
    case "list":
      return <List block={block} tail={tail} />;
  }
}

function Blocks({ blocks, tail }: { blocks: Block[]; tail?: ReactNode }) {
  return blocks.map((block, index) => (
    <BlockView key={index} block={block} tail={index === blocks.length - 1 ? tail : undefined} />
  ));
}

function Heading({ level, text, tail }: { level: number; text: string; tail?: ReactNode }) {
  // The page's own headings are the first two levels.
  const Tag = (["h3", "h4", "h5"] as const)[Math.min(level, 3) - 1] ?? "h3";
  return (
    <Tag>
      <Inlines text={text} />
      {tail}
    </Tag>
  );
}

function List({ block, tail }: { block: Extract<Block, { type: "list" }>; tail?: ReactNode }) {
  const items = block.items.map((item, index) => {
    const end = index === block.items.length - 1 ? tail : undefined;
    const [first, ...rest] = item;
    // A first paragraph stands beside its mark, without the space of a paragraph.
    return (
      <li key={index}>
        {first?.type === "paragraph" ? <Inlines text={first.text} /> : first && <BlockView block={first} />}
        {rest.length > 0 ? <Blocks blocks={rest} tail={end} /> : end}
      </li>
    );
  });
  return block.ordered ? <ol start={block.start}>{items}</ol> : <ul>{items}</ul>;
}

function Code({ language, text, tail }: { language: string; text: string; tail?: ReactNode }) {
  const say = useSentences();
  return (
    <div className="code">
      <div className="code-head">
        <span>{language}</span>
        <CopyButton text={text} label={say("copyCode")} />
      </div>
      <pre tabIndex={0}>
        <code>{text}</code>
        {tail}
      </pre>
    </div>
  );
}

function Inlines({ text }: { text: string }) {
  return render(parseInline(text));
}

function render(inlines: Inline[]): ReactNode {
  return inlines.map((inline, index) => {
    switch (inline.type) {
      case "text":
        return <Fragment key={index}>{inline.text}</Fragment>;
      case "code":
        return <code key={index}>{inline.text}</code>;
      case "strong":
        return <strong key={index}>{render(inline.children)}</strong>;
      case "emphasis":
        return <em key={index}>{render(inline.children)}</em>;
      case "struck":
        return <s key={index}>{render(inline.children)}</s>;
      case "link":
        return (
          <a key={index} href={inline.href} target="_blank" rel="noopener noreferrer">
            {render(inline.children)}
          </a>
        );
    }
  });
}
