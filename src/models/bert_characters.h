// Classes of characters as BERT's tokenizers see them. The tables stand here, and are not taken
// from the installed Unicode library, because the reference tokenizer froze them at Unicode 8: a
// later accent or punctuation mark is a letter to it, and ids must not change with the system.
#pragma once

namespace fourfold {

bool is_removed_by_clean_text(
    char32_t c);                       // control, format, private use, NUL, U+FFFD; not \t \n \r
bool is_white_space(char32_t c);       // Unicode's property White_Space
bool is_cjk(char32_t c);               // ideographs that stand alone as words
bool is_bert_punctuation(char32_t c);  // Unicode P* and every ASCII symbol
bool is_accent(char32_t c);            // Mn, nonspacing mark
bool is_word_character(char32_t c);    // letter, mark, digit, connector, joiner: a regex's \w

}  // namespace fourfold
