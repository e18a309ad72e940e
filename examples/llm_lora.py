"""A language model fine-tuned on three domains with LoRA, through TRL's SFTTrainer and GradVac.

Needs `pip install 'gradaccord[hf]' trl`. A tiny Llama and its tokenizer are made on the spot.
"""

from itertools import chain

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

from gradaccord.integrations import AlignedMixin

# %% Three domains: code, sums, and small talk. Yours would be three data sets with a column `text`.
names = ["Ada", "Ben", "Cleo", "Dev", "Eva", "Finn"]
texts = {
    "code": [f"def f{i}(x): return x + {i} # adds {i} to x" for i in range(40)],
    "sums": [f"{a} plus {b} is {a + b} ." for a in range(8) for b in range(8)],
    "chat": [f"Hello {one}, this is {two} . How are you ?" for one in names for two in names],
}
data = {domain: Dataset.from_dict({"text": own}) for domain, own in texts.items()}
train = {domain: own.select(range(len(own) - 8)) for domain, own in data.items()}
dev = {domain: own.select(range(len(own) - 8, len(own))) for domain, own in data.items()}

# %% A tiny model. With a real one: `AutoModelForCausalLM.from_pretrained(...)` and its tokenizer.
words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
special = ["[UNK]", "[PAD]", "[EOS]"]
words.train_from_iterator(chain(*texts.values()), trainers.WordLevelTrainer(special_tokens=special))
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]", eos_token="[EOS]"
)
torch.manual_seed(0)
size = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), pad_token_id=1, eos_token_id=2, **size))


# %% The mixin goes before TRL's trainer. All else is TRL's: LoRA, packing, chat templates, bf16.
class AlignedSFTTrainer(AlignedMixin, SFTTrainer):
    """SFTTrainer for several data sets, trained by a gradaccord method."""


trainer = AlignedSFTTrainer(
    model,
    SFTConfig(
        "out", max_steps=40, per_device_train_batch_size=8, learning_rate=1e-2, logging_steps=10,
        max_length=32, report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True, bf16=False,
    ),
    method="GradVac",
    train_dataset=train,
    eval_dataset=dev,
    processing_class=tokenizer,
    peft_config=LoraConfig(target_modules="all-linear", modules_to_save=["embed_tokens", "lm_head"]),
)  # fmt: skip
before = trainer.evaluate()
trainer.train()
after = trainer.evaluate()

# %% Each domain's loss before and after, and how well the domains' gradients agree.
for domain in data:
    name = f"eval_{domain}_loss"
    print(f"{domain}: loss on dev {before[name]:.2f} before, {after[name]:.2f} after")
for pair, cosine in trainer.report.pairs.items():
    print(f"cosine of the gradients of {pair[0]} and {pair[1]} in the last step: {cosine:.2f}")
print(f"trained: {sum(p.numel() for p in model.parameters() if p.requires_grad):,} weights")
